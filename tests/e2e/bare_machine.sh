#!/bin/sh
# From a bare machine to an answer, then to a newer engine: the commands that a stranger types, in their order.
#
#   bare_machine.sh PYTHON WHEEL NEWER FOLDER
#
# tests/e2e/test_package.py runs it and reads what it leaves in FOLDER: *.json and *.txt.
set -eux
python=$1 wheel=$2 newer=$3 folder=$4
cd "$folder"

# The wheel gives the command.
"$python" -m venv lakehouse
lakehouse/bin/pip install --quiet --disable-pip-version-check "$wheel"
bin=$folder/lakehouse/bin
PATH=$bin:$PATH
strandline --version > first_version.txt

# A project of one's own, which passes its own tests.
strandline init shop
cd shop
make test BIN="$bin" > ../first_tests.txt

# An own table, in each layer.
strandline new topic refunds
strandline new silver refunds --reads bronze.refunds
strandline new gold refunds_10m --reads silver.refunds

# Own events: 61 refunds, 5 of them twice, 3 records that are none; and the play events of the project.
strandline up --json > ../broker.json
strandline produce --events 2000
"$bin/python" "$folder/own_events.py" ../broker.json 0

# Every table, then an answer, and the proof that nothing is lost.
strandline run
strandline query "SELECT events, count(*) AS windows FROM gold.refunds_10m GROUP BY events" --json > ../first_answer.json
strandline ledger --json > ../first_ledger.json

# What pip chose without our pins answers as the tested one does: of a version, of an event, of the day.
strandline query "SELECT count(*) AS windows FROM gold.refunds_10m AT (VERSION => 1)" --json > ../at_version.json
strandline why refunds/0/0 --in silver.refunds --json > ../why.json
strandline report --json --to ../report.html > ../report.json || test $? = 4
"$bin/pip" check > ../pip_check.txt

# The same answer over JDBC, as a dashboard asks for it; PySpark brings a client.
echo of-a-dashboard | strandline serve add-user dashboard
strandline serve --port 0 > ../served.txt 2> ../server.log & server=$!
trap 'kill $server 2> /dev/null || true' EXIT
waited=0
until grep -q jdbc: ../served.txt; do
  sleep 1; waited=$((waited + 1)); kill -0 $server; test $waited -lt 300
done
address=$(grep -o 'jdbc:[^;]*' ../served.txt)
"$bin/beeline" -u "$address" -n dashboard -p of-a-dashboard --silent=true --outputformat=csv2 \
  -e "SELECT events, count(*) AS windows FROM gold.refunds_10m GROUP BY events" < /dev/null > ../dashboard_answer.txt 2> ../dashboard.log
kill -TERM $server
wait $server || true

# A newer engine. Nothing of the project is touched.
find . -path ./.lake -prune -o -name '*.py' -type f -exec sha256sum {} + | sort > ../files_before.txt
find .lake -path '*/metadata' -name metadata -type f -exec sha256sum {} + | sort > ../checkpoints_before.txt
"$bin/pip" install --quiet --disable-pip-version-check --no-deps "$newer"
strandline --version > ../second_version.txt
make test BIN="$bin" > ../second_tests.txt

# The same lake goes on where it was.
"$bin/python" "$folder/own_events.py" ../broker.json 1
strandline run --json > ../second_run.json
strandline query "SELECT events, count(*) AS windows FROM gold.refunds_10m GROUP BY events" --json > ../second_answer.json
strandline ledger --json > ../second_ledger.json
find . -path ./.lake -prune -o -name '*.py' -type f -exec sha256sum {} + | sort > ../files_after.txt
find .lake -path '*/metadata' -name metadata -type f -exec sha256sum {} + | sort > ../checkpoints_after.txt
strandline down
