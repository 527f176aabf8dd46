"""`goqueue spark load` as a program: submitted to Spark, killed, and started again by its name."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from goqueue import blocking
from tests.spark.sessions import prepare_environment

FILES, ROWS = 12, 20_000
SECONDS_MAX = 120
ENTRY = "from goqueue.cli import main\n\nmain()\n"
"""What `spark-submit` is given: it takes a file, not a command."""


def write_files(folder: Path) -> None:
    folder.mkdir()
    for file in range(FILES):
        rows = (f"{file * ROWS + row}\n" for row in range(ROWS))
        (folder / f"{file:02}.csv").write_text("n\n" + "".join(rows))


def kill_when_it_has_begun(process: "subprocess.Popen[str]", checkpoint: Path) -> None:
    """As `kill -9` of the driver, Java and all; once the first files are entered as done."""
    deadline = time.monotonic() + SECONDS_MAX
    while not list(checkpoint.glob("*.json")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_a_run_that_was_killed_goes_on_where_it_ended(
    url: str, client: blocking.Client, topic: str, tmp_path: Path
) -> None:
    prepare_environment()
    client.create_topic(topic, 3)
    write_files(tmp_path / "in")
    (tmp_path / "entry.py").write_text(ENTRY)
    group = ["--batch-mib", "1"]  # all files would fit into two
    arguments = ["spark", "load", str(tmp_path / "in"), "--topic", topic, "--value", "n", "--url", url]
    arguments += ["--checkpoint", str(tmp_path / "checkpoint"), "-o", "json", *group]
    submit = str(Path(sys.executable).with_name("spark-submit"))
    command = [submit, "--master", "local[2]", str(tmp_path / "entry.py"), *arguments]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    kill_when_it_has_begun(process, tmp_path / "checkpoint")
    again = subprocess.run(
        [sys.executable, "-m", "goqueue", *arguments, "--master", "local[2]"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    done = json.loads(again.stdout)
    assert done["files"] + done["files_before"] == FILES
    assert done["files_before"] > 0
    counts = Counter(int(message.value) for message in client.read(topic, end="latest"))
    assert set(counts) == set(range(FILES * ROWS))
    assert max(counts.values()) <= 2
