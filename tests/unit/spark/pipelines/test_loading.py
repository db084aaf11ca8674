"""What a program's file may define, and what is said of one that defines nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.pipelines.loading import BadProgram, check, load, name_of_file


def write(folder: Path, text: str, name: str = "word_count.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_function_pipeline_is_a_program_named_after_its_file(tmp_path: Path) -> None:
    program = load(write(tmp_path, "def pipeline(spark):\n    return spark\n"))

    assert program.name == "word-count"
    assert program.pipeline is not None
    assert program.pipeline("session") == "session"


def test_an_app_is_a_program_named_as_it_is(tmp_path: Path) -> None:
    text = "class App:\n    application_id = 'counts'\n    def start(self, spark): ...\napp = App()\n"

    program = load(write(tmp_path, text))

    assert program.name == "counts"
    assert program.app is not None


def test_modules_beside_it_are_found(tmp_path: Path) -> None:
    write(tmp_path, "TOPIC = 'lines'\n", "topics_of_this_test.py")

    program = load(
        write(tmp_path, "from topics_of_this_test import TOPIC\ndef pipeline(spark): return TOPIC\n")
    )

    assert program.pipeline is not None
    assert program.pipeline(None) == "lines"


def test_what_it_defines_travels_to_workers_that_have_no_such_file(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    program = load(write(tmp_path, "FACTOR = 3\ndef pipeline(spark): return spark * FACTOR\n", "by_value.py"))

    assert b"penstock_pipeline_by_value\x94\x8c\x08pipeline" not in cloudpickle.dumps(program.pipeline)


def test_a_file_that_defines_neither_is_refused_with_what_it_could_define(tmp_path: Path) -> None:
    with pytest.raises(BadProgram, match=r"neither `app` .* nor a function `pipeline\(spark\)`"):
        load(write(tmp_path, "x = 1\n"))


def test_a_file_that_raises_is_refused_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(BadProgram, match=r"ZeroDivisionError: division by zero \(line 2\)"):
        load(write(tmp_path, "x = 1\ny = x / 0\n"))


def test_the_line_is_told_of_a_file_by_a_relative_path_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "x = 1\ny = x / 0\n")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(BadProgram, match=r"ZeroDivisionError: division by zero \(line 2\)"):
        load(Path("word_count.py"))


def test_a_file_that_is_no_python_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(BadProgram, match=r"SyntaxError: .*line 1"):
        check(write(tmp_path, "def pipeline(spark) return 1\n"))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadProgram, match=r"nowhere\.py: there is no such file"):
        load(tmp_path / "nowhere.py")


@pytest.mark.parametrize(
    ("file", "name"), [("word_count.py", "word-count"), ("a b.py", "a-b"), ("__.py", "pipeline")]
)
def test_a_file_names_its_program(file: str, name: str) -> None:
    assert name_of_file(Path(file)) == name
