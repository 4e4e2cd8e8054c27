"""The image of infra/image, built and run without Docker: what its Dockerfile says, done in a folder that becomes the root.

Debian's own Python 3.11 takes the place of the image `python:3.11-slim-bookworm`, which comes from no package registry.
A container is namespaces of its own for processes, mounts and its name, a root that is read only, a user without a right, and
tini as its first process: what the manifests ask of a cluster.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from strandline_infra.programs import HOST
from tests.support.manifests import ROOT

FILE = ROOT / "infra" / "image" / "Dockerfile"
PACKAGES = "--include=ca-certificates,python3,python3-venv"
DEBOOTSTRAP = ("debootstrap", "--variant=minbase", PACKAGES, "bookworm")
UNSHARE, COPY = ("unshare",), ("cp", "-a")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NETWORK = (
    *("/etc/apt", "/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"),
    *("/usr/local/share/ca-certificates", "/etc/ssl/certs/ca-certificates.crt"),
)
"""What a machine's own builds reach its registries with."""
LEAVES = re.compile(r"^(pip|ssl|requests|https?|no)_", re.IGNORECASE)
"""The variables for the same; a build has them, a container has not."""
HERE = "mount --make-rprivate / && mount --bind {root} {root} && mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev"


@dataclass(frozen=True, slots=True)
class Instruction:
    """A line of a Dockerfile, with those that continue it."""

    name: str
    rest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A root, and what every container of it has.

    Args:
        root: Its folder.
        variables: Of the instruction ENV.
        user: As which it runs.
        folder: Where it begins.
        entry: The program before the container's own words.
    """

    root: Path
    variables: Mapping[str, str]
    user: str
    folder: str
    entry: Sequence[str]


def instructions() -> list[Instruction]:
    """Return the Dockerfile's instructions."""
    lines = [line for line in FILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    parts = (line.partition(" ") for line in whole.splitlines() if line)
    return [Instruction(name, rest.strip()) for name, _, rest in parts]


def python(root: Path) -> Path:
    """Make the root that takes the place of the image of Python."""
    subprocess.run([*DEBOOTSTRAP, root], check=True, stdout=subprocess.DEVNULL)
    _reach_registries(root)
    (root / "usr" / "local" / "bin" / "python").symlink_to("/usr/bin/python3")
    return root


def built(folder: Path, first: Path) -> Image:
    """Build it in a folder, stage after stage, from the root of the image of Python."""
    stages, root, place = {"${PYTHON_IMAGE}": first}, first, "/"
    for number, each in enumerate(instructions()):
        match each.name, shlex.split(each.rest):
            case "FROM", [source, *named]:
                root, place = folder / (named[1] if named else "final"), "/"
                _copy(stages[source], root)
                stages[root.name] = root
            case "WORKDIR", [place]:
                (root / place[1:]).mkdir(parents=True, exist_ok=True)
            case "RUN", _:
                line = re.sub(r"--mount=\S+", "", each.rest)  # of a secret, which a build may lack
                _run(root, f"cd {place} && {line}", folder / f"{number}.log")
            case "COPY", [".", "."]:
                _copy_project(root / place[1:])
            case "COPY", [option, source, target]:
                _copy(stages[option.removeprefix("--from=")] / source[1:], root / target[1:])
            case _:
                pass  # of the container, not of the build
    return _configured(root)


def _configured(root: Path) -> Image:
    """Return what the last stage says of each container."""
    said = {each.name: each.rest for each in instructions()}
    variables = dict(word.split("=", 1) for word in shlex.split(said["ENV"]))
    variables["PATH"] = variables["PATH"].replace("$PATH", os.defpath)
    entry = re.findall(r'"([^"]+)"', said["ENTRYPOINT"])
    return Image(
        root=root, variables=variables, user=said["USER"], folder=said["WORKDIR"], entry=entry
    )


def sizes(root: Path) -> dict[str, int]:
    """Return the bytes of the files of an image by what they are for.

    Each is in one layer only: what the build needs is in a stage of its own, and lists of packages go in the step that fetched them.
    """
    parts = {
        "jars of Spark": "opt/strandline/.venv/lib/*/site-packages/pyspark/jars",
        "Python packages": "opt/strandline/.venv/lib",
        "jars beside Spark": "opt/strandline/.venv/jars",
        "code and the rest of its environment": "opt/strandline",
        "Java": "usr/lib/jvm",
        "system": "",
    }
    found, seen = dict.fromkeys(parts, 0), set[int]()
    folders = [
        (name, place)
        for name, part in parts.items()
        for place in (root.glob(part) if part else [root])
    ]
    for folder, below, files in os.walk(root):
        # What a container has of the machine is not in the image.
        below[:] = [
            each for each in below if Path(folder) != root or each not in {"proc", "dev", "sys"}
        ]
        for file in files:
            facts = (Path(folder) / file).lstat()
            if facts.st_ino not in seen:  # a second name takes no room
                seen.add(facts.st_ino)
                name = next(name for name, place in folders if Path(folder).is_relative_to(place))
                found[name] += facts.st_size
    return found


def compressed(root: Path) -> int:
    """Return the bytes that a registry keeps of it, and a node fetches: a layer is an archive, compressed by gzip."""
    line = "tar --one-file-system --exclude=./proc --exclude=./dev -cf - . | gzip -6 | wc -c"
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=root, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@contextmanager
def running(  # noqa: PLR0913  # what a cluster gives a container
    image: Image,
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    mounts: Mapping[str, Path],
    name: str,
    log: Path,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a container; ``mounts`` are the folders of its volumes by where they are, and nothing else can be written to."""
    own = shlex.quote(str(image.root))
    # A kubelet writes it as well; Spark ends at once where its own host has no address.
    hosts = log.with_suffix(".hosts")
    hosts.write_text(f"{HOST} localhost {name}\n")
    bound = {**mounts, "/etc/hosts": hosts}
    binds = [f"mount --bind {shlex.quote(str(v))} {own}{at}" for at, v in bound.items()]
    script = " && ".join(
        [
            HERE.format(root=own),
            *binds,
            f"mount -o remount,ro,bind {own}",
            f"hostname {name}",
            f"exec chroot {own} {_as_user(image, [*image.entry, *words], env)}",
        ]
    )
    spaces = [*UNSHARE, "--mount", "--pid", "--uts", "--fork", "--kill-child"]
    with log.open("ab") as stream:
        process = subprocess.Popen([*spaces, "sh", "-c", script], stdout=stream, stderr=stream)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def first(process: "subprocess.Popen[bytes]") -> int:
    """Return the process id, on this machine, of a container's first process."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0])


def inside(
    image: Image,
    process: "subprocess.Popen[bytes]",
    words: Sequence[str],
    env: Mapping[str, str],
    timeout: float = 60,
) -> "subprocess.CompletedProcess[str]":
    """Type a command in a container, as a probe and ``kubectl exec`` do."""
    enter = ["nsenter", "-t", str(first(process)), "-m", "-p", "-u", "-r", "-w"]
    typed = ["/bin/sh", "-c", f"exec {_as_user(image, words, env)}"]
    return subprocess.run(
        [*enter, *typed], capture_output=True, text=True, check=False, timeout=timeout
    )


def _as_user(image: Image, words: Sequence[str], env: Mapping[str, str]) -> str:
    user, _, group = image.user.partition(":")
    given = [f"{key}={value}" for key, value in {**image.variables, **env}.items()]
    rights = ("--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
    command = ["setpriv", f"--reuid={user}", f"--regid={group}", *rights, "env", "-i", *given]
    return shlex.join([*command, f"--chdir={image.folder}", *words])


def _run(root: Path, line: str, log: Path) -> None:
    given = [f"{key}={value}" for key, value in os.environ.items() if LEAVES.match(key)]
    command = shlex.join(["env", "-i", PATH, "HOME=/tmp", *given, "/bin/sh", "-ec", line])
    own = shlex.quote(str(root))
    whole = f"{HERE.format(root=own)} && exec chroot {own} {command}"
    with log.open("wb") as stream:
        subprocess.run(
            [*UNSHARE, "--mount", "sh", "-c", whole], check=True, stdout=stream, stderr=stream
        )


def _reach_registries(root: Path) -> None:
    for each in map(Path, NETWORK):
        target = root / str(each)[1:]
        if each.is_dir():
            shutil.copytree(each, target, dirs_exist_ok=True, symlinks=True)
        elif each.exists():
            target.unlink(missing_ok=True)
            shutil.copy(each, target)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*COPY, source, target], check=True)


def _copy_project(target: Path) -> None:
    """Copy what git has, without what the file of ignored files leaves out."""
    ignored = FILE.with_name("Dockerfile.dockerignore").read_text().split()
    kept = [line[1:] for line in ignored if line.startswith("!")]
    left = [line for line in ignored if "/" in line and not line.startswith(("!", "*"))]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *kept]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in sorted(set(listed.stdout.splitlines())):
        if not any(name.startswith(f"{each}/") for each in left):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
