"""What a program's file may define, and the errors for other files."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path

import pytest

from penstock.spark.pipelines.loading import BadProgram, check, load, load_early, name_of_file


def write(folder: Path, text: str, name: str = "word_count.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_function_pipeline_is_a_program_named_after_its_file(tmp_path: Path) -> None:
    program = load(write(tmp_path, "def pipeline(spark):\n    return spark\n"))

    assert program.name == "word-count"
    assert program.pipeline is not None
    assert program.pipeline("session") == "session"


def test_an_app_gives_the_program_its_name(tmp_path: Path) -> None:
    text = "class App:\n    application_id = 'counts'\n    def start(self, spark): ...\napp = App()\n"

    program = load(write(tmp_path, text))

    assert program.name == "counts"
    assert program.app is not None


def test_modules_next_to_the_file_are_found(tmp_path: Path) -> None:
    write(tmp_path, "TOPIC = 'lines'\n", "topics_of_this_test.py")

    program = load(
        write(tmp_path, "from topics_of_this_test import TOPIC\ndef pipeline(spark): return TOPIC\n")
    )

    assert program.pipeline is not None
    assert program.pipeline(None) == "lines"


def test_its_functions_are_pickled_with_their_code(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    program = load(write(tmp_path, "FACTOR = 3\ndef pipeline(spark): return spark * FACTOR\n", "by_value.py"))

    assert b"penstock_pipeline_by_value\x94\x8c\x08pipeline" not in cloudpickle.dumps(program.pipeline)


def test_a_file_that_defines_no_program_is_rejected_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(
        BadProgram, match=r"defines neither `app` nor `pipeline`: write `def pipeline\(spark\):`"
    ):
        load(write(tmp_path, "x = 1\n"))


def test_a_file_that_raises_is_rejected_with_its_own_lines_only(tmp_path: Path) -> None:
    write(tmp_path, "import json\n\ndef read():\n    return json.loads('{')\n", "settings_of_this_test.py")
    file = write(
        tmp_path, "from settings_of_this_test import read\nrules = read()\ndef pipeline(spark): ...\n"
    )

    with pytest.raises(BadProgram) as caught:
        load(file)

    first, *lines = str(caught.value).splitlines()
    assert first.startswith(f"cannot load {file}: JSONDecodeError: Expecting property name")
    assert lines == [
        f"  {file}, line 2: rules = read()",
        f"  {tmp_path}/settings_of_this_test.py, line 4, in read: return json.loads('{{')",
    ]


def test_file_names_are_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "x = 1\ny = x / 0\ndef pipeline(spark): ...\n")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(BadProgram) as caught:
        load(Path("word_count.py"))

    assert str(caught.value).splitlines() == [
        "cannot load word_count.py: ZeroDivisionError: division by zero",
        "  word_count.py, line 2: y = x / 0",
    ]


def test_a_file_that_exits_is_rejected_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(BadProgram, match=r'exited .*\(SystemExit: 3\); .* `if __name__ == "__main__":`'):
        load(write(tmp_path, "import sys\ndef pipeline(spark): ...\nsys.exit(3)\n"))


def test_a_file_with_a_syntax_error_is_rejected_early(tmp_path: Path) -> None:
    file = write(tmp_path, "x = 1\ndef pipeline(spark) return 1\n")

    with pytest.raises(BadProgram) as caught:
        check(file)

    assert str(caught.value).splitlines() == [
        f"cannot load {file}: SyntaxError: expected ':'",
        f"  {file}, line 2: def pipeline(spark) return 1",
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.py", "no such file"),
        (".", "is a directory; name a Python file in it"),
        ("notes.txt", "is not a Python file: its name must end in .py"),
    ],
)
def test_other_files_are_rejected(tmp_path: Path, name: str, message: str) -> None:
    write(tmp_path, "x", "notes.txt")

    with pytest.raises(BadProgram, match=message):
        check(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pipeline = 17", "`pipeline` is an int, not a function"),
        ("async def pipeline(spark): ...", "`pipeline` must not be async"),
        ("def pipeline(): ...", "`pipeline` must take the session as its only argument (too many"),
        ("def pipeline(spark, topic): ...", "its only argument (missing a required argument: 'topic')"),
        ("app = 'orders'", "`app` is a str, not a penstock.streams.App"),
    ],
)
def test_a_pipeline_or_app_of_the_wrong_type_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadProgram, match=re.escape(message)):
        load(write(tmp_path, f"{text}\n"))


def test_a_file_that_needs_a_session_is_loaded_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests in the same process may have left one.
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    file = write(
        tmp_path, "from pyspark.sql import functions as F\nkey = F.col('key')\ndef pipeline(spark): ...\n"
    )

    assert check(file)  # by its text
    assert load_early(file) is None  # and by Spark's error


def test_a_file_that_needs_no_session_is_loaded_at_once(tmp_path: Path) -> None:
    program = load_early(write(tmp_path, "def pipeline(spark): ...\n"))

    assert program is not None
    with pytest.raises(BadProgram, match="NameError"):
        load_early(write(tmp_path, "nothing\ndef pipeline(spark): ...\n"))


@pytest.mark.parametrize(
    ("file", "name"), [("word_count.py", "word-count"), ("a b.py", "a-b"), ("__.py", "pipeline")]
)
def test_the_file_name_gives_the_program_its_name(file: str, name: str) -> None:
    assert name_of_file(Path(file)) == name


def test_modules_next_to_the_file_are_pickled_with_their_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import cloudpickle

    write(tmp_path, "LIMIT = 7\ndef limit(value): return min(value, LIMIT)\n", "limits_of_this_test.py")
    text = "import limits_of_this_test\ndef pipeline(spark): return limits_of_this_test.limit\n"

    program = load(write(tmp_path, text, "with_limits.py"))

    assert program.pipeline is not None
    sent = cloudpickle.dumps(program.pipeline(None))
    monkeypatch.delitem(sys.modules, "limits_of_this_test")
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(tmp_path)])
    assert pickle.loads(sent)(9) == 7


def test_a_file_named_like_a_standard_module_does_not_replace_it(tmp_path: Path) -> None:
    text = "def pipeline(spark):\n    import sched\n    return sched\n"

    program = load(write(tmp_path, text, "sched.py"))

    assert "sched" not in sys.modules, "or this would show nothing"
    assert program.pipeline is not None
    assert hasattr(program.pipeline(None), "scheduler")
