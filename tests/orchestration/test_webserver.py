"""No page of a stranger orders the lake about: Dagster's real webserver, asked as browsers ask for such a page, and as ours do."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest

from strandline.engine.runtime import processes
from strandline_infra.programs import instance
from tests.support.console import LAUNCH
from tests.support.tab import Tab, opened_tab

PATIENCE = 300
PUBLIC = "lake.example.org"
V6 = "[::1]:3000"
STRANGERS, OTHER = "evil.example", "other.example.org:8443"
EVIL = f"http://{STRANGERS}"
JSON = {"Content-Type": "application/json"}
MUTATIONS = "{ __schema { mutationType { fields { name } } } }"
RUNS = "{ runsOrError { ... on Runs { results { runId jobName } } } }"
VERBS = ("pause_alerts", "pause", "drain", "restart", "maintenance", "expire", "rewind")
"""Jobs that do what verbs of ours do; each runs without a word of configuration but the reason, and none may be launched."""
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "graphql-ws",
}


@dataclass(frozen=True, slots=True)
class Server:
    """A webserver that answers."""

    port: int

    @property
    def host(self) -> str:
        """Return what it is called."""
        return f"127.0.0.1:{self.port}"

    def asked(
        self, method: str, path: str, heads: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, str]:
        """Return status and text of an answer; the headers are those and no others."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=300)) as line:
            line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": self.host, **heads}.items():
                line.putheader(name, value)
            if body or method == "POST":
                line.putheader("Content-Length", str(len(body)))
            line.endheaders(body or None)
            answer = line.getresponse()
            upgraded = answer.status == 101
            return answer.status, "" if upgraded else answer.read().decode()

    def ask(
        self, question: str, heads: Mapping[str, str] | None = None, **variables: object
    ) -> tuple[int, str]:
        """Ask by a POST of JSON, as Dagster's pages do."""
        return self.asked("POST", "/graphql", {**JSON, **(heads or {})}, _body(question, variables))


def _body(question: str, variables: Mapping[str, object]) -> bytes:
    return json.dumps({"query": question, "variables": variables}).encode()


def _launch(job: str) -> dict[str, object]:
    selector = {
        "repositoryLocationName": "strandline_dagster.definitions",
        "repositoryName": "__repository__",
        "jobName": job,
    }
    return {"params": {"selector": selector, "mode": "default", "runConfigData": {}}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start Dagster's webserver with the project's definitions, as the image does, for a lake without a table."""
    folder = tmp_path_factory.mktemp("dagster")
    (folder / "dagster.yaml").write_text(instance(in_database=False))
    reserved = processes.bind(0)
    module = os.environ.get("TEST_WEBSERVER", "strandline_dagster.webserver")
    words = [
        "-m",
        module,
        "-h",
        "127.0.0.1",
        "-p",
        str(reserved),
        "-m",
        "strandline_dagster.definitions",
    ]
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(folder),
        "STRANDLINE_LAKE": str(folder / "lake"),
        "STRANDLINE_HOSTS": f"{PUBLIC},{OTHER}",
    }
    log = folder / "webserver.log"
    with log.open("wb") as written:
        program = subprocess.Popen(
            [sys.executable, *words], env=environment, stdout=written, stderr=written
        )
    found = Server(reserved)
    try:
        deadline = time.monotonic() + PATIENCE
        while not _answers(found):
            assert program.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield found
    finally:
        program.terminate()
        program.wait(120)


def _answers(server: Server) -> bool:
    try:
        return server.asked("GET", "/server_info", {})[0] == 200
    except OSError:
        return False


def _shapes(
    server: Server, question: str, variables: Mapping[str, object]
) -> Iterator[tuple[str, int]]:
    """Yield how a stranger's page may bring a browser to ask a question, and the status of the answer."""
    body = _body(question, variables)
    address = f"/graphql?query={quote(question)}&variables={quote(json.dumps(variables))}"
    other_port = {"Origin": "http://127.0.0.1:8888", "Sec-Fetch-Site": "same-site"}
    evil = f"evil.example:{server.port}"
    asked = server.asked
    yield "POST without a body", asked("POST", address, {"Origin": EVIL})[0]
    yield "POST of text", asked("POST", address, {"Content-Type": "text/plain"}, body)[0]
    yield (
        "POST of a form",
        asked("POST", address, {"Content-Type": "application/x-www-form-urlencoded"}, b"a=b")[0],
    )
    as_text = {"Content-Type": "text/plain; application/json"}
    yield "POST of text that is called JSON too", asked("POST", "/graphql", as_text, body)[0]
    yield (
        "POST of a question",
        asked("POST", "/graphql", {"Content-Type": "application/graphql"}, question.encode())[0],
    )
    yield "POST of JSON", asked("POST", "/graphql", {**JSON, "Origin": EVIL}, body)[0]
    yield (
        "POST without an origin",
        asked("POST", "/graphql", {**JSON, "Sec-Fetch-Site": "cross-site"}, body)[0],
    )
    yield "POST out of a sandbox", asked("POST", "/graphql", {**JSON, "Origin": "null"}, body)[0]
    yield "POST from another port", asked("POST", "/graphql", {**JSON, **other_port}, body)[0]
    yield "an image", asked("GET", address, {"Accept": "image/*"})[0]
    yield (
        "a link",
        asked(
            "GET",
            address,
            {"Accept": "*/*", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"},
        )[0],
    )
    rebound = {**JSON, "Host": evil, "Origin": f"http://{evil}", "Sec-Fetch-Site": "same-origin"}
    yield "a name that resolves to us", asked("POST", "/graphql", rebound, body)[0]
    yield "that name in an old browser", asked("POST", "/graphql", {**JSON, "Host": evil}, body)[0]
    yield (
        "a public name that is not quite it",
        asked("POST", "/graphql", {**JSON, "Host": f"{PUBLIC}.evil.example"}, body)[0],
    )


@pytest.mark.whole
def test_no_mutation_of_dagster_is_run_for_a_stranger(server: Server) -> None:
    """Each that its schema has, in each shape that a browser sends for a page without the server's consent."""
    mutations = [
        field["name"]
        for field in json.loads(server.ask(MUTATIONS)[1])["data"]["__schema"]["mutationType"][
            "fields"
        ]
    ]
    assert {"launchRun", "terminateRun", "deletePipelineRun", "wipeAssets"} <= set(mutations)

    passed = [
        (mutation, shape, status)
        for mutation in mutations
        for shape, status in _shapes(server, f"mutation {{ {mutation} {{ __typename }} }}", {})
        if status != 403
    ]

    assert passed == []


@pytest.mark.whole
def test_no_verb_of_ours_is_launched_by_a_stranger(server: Server) -> None:
    """The same launch runs where Dagster's own page asks."""
    before = server.ask(RUNS)[1]

    passed = [
        (job, shape, status)
        for job in VERBS
        for shape, status in _shapes(server, LAUNCH, _launch(job))
        if status != 403
    ]

    assert passed == []
    assert server.ask(RUNS)[1] == before

    own = {"Origin": f"http://{server.host}", "Sec-Fetch-Site": "same-origin"}
    status, text = server.ask(LAUNCH, own, **_launch("pause_alerts"))
    assert (status, json.loads(text)["data"]["launchRun"]["__typename"]) == (
        200,
        "LaunchRunSuccess",
    )


def test_what_comes_from_elsewhere_reports_nothing_and_reads_nothing(server: Server) -> None:
    """Dagster takes a materialisation by an address alone, without a body."""
    address = "/report_asset_materialization/gold/alerts?description=false"
    assert server.asked("POST", address, {"Origin": EVIL})[0] == 403
    assert server.asked("POST", address, {})[0] == 403
    assert (
        server.asked(
            "GET", "/logs/run/err", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
        )[0]
        == 403
    )


@pytest.mark.parametrize(
    ("heads", "status"),
    [
        ({}, 101),  # no browser
        ({"Origin": "http://{host}"}, 101),
        ({"Origin": f"https://{PUBLIC}"}, 101),
        ({"Origin": f"https://{PUBLIC}", "Host": PUBLIC}, 101),
        ({"Origin": EVIL}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:8888"}, 403),
        ({"Origin": EVIL, "Host": "evil.example"}, 403),
    ],
)
def test_a_websocket_is_opened_for_dagsters_own_pages(
    server: Server, heads: dict[str, str], status: int
) -> None:
    """A browser asks no server's consent for it."""
    own = {name: value.replace("{host}", server.host) for name, value in heads.items()}
    assert server.asked("GET", "/graphql", {**UPGRADE, **own})[0] == status


@pytest.mark.parametrize(
    "heads",
    [
        {},
        {"Host": "localhost:3000", "Origin": "http://localhost:3000"},  # kubectl port-forward
        {"Host": V6, "Origin": f"http://{V6}"},
        {"Host": "10.1.2.3:3000"},  # a probe of Kubernetes
        {"Host": PUBLIC, "Origin": f"https://{PUBLIC}", "Sec-Fetch-Site": "same-origin"},
        {"Host": PUBLIC.upper(), "Origin": f"https://{PUBLIC}:8443"},
        {
            "Origin": f"https://{PUBLIC}",
            "Sec-Fetch-Site": "same-origin",
        },  # a proxy that changes the name
        {"Host": OTHER, "Origin": f"https://{OTHER}"},
    ],
)
def test_programs_and_the_page_under_each_of_its_names_are_answered(
    server: Server, heads: dict[str, str]
) -> None:
    """Also behind a proxy, with the public name or with ours."""
    status, text = server.ask("{ version }", heads)
    assert (status, "version" in text) == (200, True)


@pytest.mark.whole
@pytest.mark.parametrize(
    "host", ["other.example.org:9000", "evil.localhost", "", "[::1", "127.0.0.1.evil.example"]
)
def test_a_refusal_says_which_setting_opens_the_door(server: Server, host: str) -> None:
    """A person who puts a proxy before it reads it in the browser."""
    status, text = server.asked("GET", "/", {"Host": host, "Accept": "text/html"})
    assert (status, "STRANDLINE_HOSTS" in text) == (403, True)


def test_a_link_from_elsewhere_opens_a_page_that_is_in_no_frame(server: Server) -> None:
    """An alarm links to its run."""
    heads = {"Accept": "text/html", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert server.asked("GET", "/runs", heads)[0] == 200
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=300)) as line:
        line.request("GET", "/runs")
        assert line.getresponse().getheader("X-Frame-Options") == "SAMEORIGIN"


STRANGER = """
<title>A page of a stranger</title>
<iframe name="nowhere"></iframe>
<script>
const [dagster, body, address, socket] = ADDRESSES;
const post = (type, text) => fetch(dagster + '/graphql', {method: 'POST', mode: 'no-cors', headers: type ? {'Content-Type': type} : {}, body: text});
const form = type => { const f = document.createElement('form'); f.action = address; f.method = 'POST'; f.enctype = type; f.target = 'nowhere';
  const i = document.createElement('input'); i.name = body; i.value = ''; f.append(i); document.body.append(f); f.submit(); };
const image = () => new Promise(done => { const i = new Image(); i.onload = i.onerror = done; i.src = address; });
const opened = () => new Promise(done => { const s = new WebSocket(socket, 'graphql-ws');
  s.onopen = () => done('open'); s.onerror = () => done('refused'); });
const framed = () => new Promise(done => { const f = document.createElement('iframe'); f.onload = () => done(); f.src = dagster + '/runs'; document.body.append(f); });
window.outcome = null;
(async () => {
  await post('text/plain', body); await post('', body); await post('text/plain; application/json', body);
  await fetch(address, {method: 'POST', mode: 'no-cors'}); await fetch(address, {mode: 'no-cors'});
  await fetch(dagster + '/graphql', {method: 'POST', headers: {'Content-Type': 'application/json'}, body}).catch(() => null);
  form('text/plain'); form('application/x-www-form-urlencoded');
  await image(); await framed();
  window.outcome = await opened();
})();
</script>
"""
ASK = "fetch('/graphql', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: BODY}).then(a => a.text()).then(t => window.answer = t)"


@contextmanager
def _page_of_a_stranger(server: Server, job: str) -> Iterator[str]:
    """Serve a page from another port, which tries to launch a job in each way that a page has."""
    body = _body(LAUNCH, _launch(job)).decode()
    address = f"http://{server.host}/graphql?query={quote(LAUNCH)}&variables={quote(json.dumps(_launch(job)))}"
    where = [f"http://{server.host}", body, address, f"ws://{server.host}/graphql"]
    words = STRANGER.replace("ADDRESSES", json.dumps(where)).encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(words)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as stranger:
        Thread(target=stranger.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{stranger.server_port}/"
        stranger.shutdown()


def _answer(tab: Tab, question: str) -> object:
    deadline = time.monotonic() + PATIENCE
    while (found := tab.ask(question)) is None:
        assert time.monotonic() < deadline, tab.words
        time.sleep(0.1)
    return found


@pytest.mark.slow
@pytest.mark.prove(alone="half a minute")
def test_in_a_real_browser_a_stranger_launches_nothing_and_dagsters_page_does(
    server: Server, tmp_path: Path
) -> None:
    """By forms, fetches, an image, a frame and a websocket; afterwards the page itself launches and shows a run."""
    before = server.ask(RUNS)[1]
    with opened_tab(tmp_path) as tab:
        for job in VERBS:
            with _page_of_a_stranger(server, job) as address:
                tab.go(address)
                assert _answer(tab, "window.outcome") == "refused", job
        assert server.ask(RUNS)[1] == before

        tab.go(f"http://{server.host}/runs")
        tab.sees("Runs", within=PATIENCE)
        tab.ask(ASK.replace("BODY", json.dumps(_body(LAUNCH, _launch("drain")).decode())))
        assert "LaunchRunSuccess" in str(_answer(tab, "window.answer"))
        tab.sees("drain", within=PATIENCE)
