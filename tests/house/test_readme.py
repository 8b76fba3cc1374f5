"""README and guides are true: their code runs, their files are the shipped ones, their tables are printed."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from forked import hpometrics, program
from matrix import EXHAUSTIVE
from shipped import call, check_best, run_here, without_numbers

from hpometrics.backends.storage_url import url_of
from hpometrics.cli.main import main
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.selection.selection import front_of, knee_of
from hpometrics.testing import LAWS, check_device
from hpometrics.testing.scorecard import law_name

ROOT = Path(__file__).parents[2]
PATHS = {path.name: path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))}
PAGES = {name: path.read_text(encoding="utf8") for name, path in PATHS.items()}
README, STAGES = PAGES["README.md"], PAGES["engine-params.md"]
BLOCKS = {
    name: re.findall(r"```python\n(?!# (?:mine|warp)/)(.*?)```", page, re.DOTALL)  # others run those
    for name, page in PAGES.items()
}
EXCERPTS = [
    excerpt for page in PAGES.values() for excerpt in re.findall(r"```py\n# (\S+)\n(.*?)```", page, re.DOTALL)
]


def script_of(page, folder):
    """Write all blocks of a page to a file."""
    script = folder / "page.py"
    script.write_text("\n".join(BLOCKS[page]), encoding="utf8")
    return script


RAY_PAGES = [name for name, blocks in BLOCKS.items() if "\nimport ray" in "\n".join(["", *blocks])]


@pytest.mark.ray
@pytest.mark.parametrize("name", RAY_PAGES)
def test_the_code_of_a_page_on_ray_runs(python, ray_cluster, tmp_path, monkeypatch, name):
    """Each block runs after those before it, as a reader types them; Ray is that of the tests."""
    monkeypatch.setenv("RAY_ADDRESS", ray_cluster)
    ran = python(script_of(name, tmp_path), tmp_path)
    assert ran.returncode == 0 and ran.stdout and "Warning" not in ran.stderr, ran.stderr


@pytest.mark.parametrize(
    "name", [name for name, blocks in BLOCKS.items() if blocks and name not in RAY_PAGES]
)
def test_the_code_of_a_page_runs(name, tmp_path):
    """The same of the pages without Ray, the README first."""
    ran = program(script_of(name, tmp_path), folder=tmp_path).result()
    assert ran.returncode == 0 and "Warning" not in ran.stderr, ran.stderr
    assert ran.stdout
    assert name != "tabnet.md" or "1.0" in ran.stdout.splitlines()


def test_metrics_alone_need_neither_optuna_nor_ray(tmp_path):
    """The page on metrics alone runs where neither is installed, with Lightning, Ignite and Accelerate."""
    script = script_of("metrics-only.md", tmp_path)
    without = "import sys\nsys.modules |= dict.fromkeys(('optuna', 'ray'))\n"
    script.write_text(without + script.read_text())
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    one, other = re.findall(r"\{'f1\(average=macro\)'.*\}", ran.stdout)
    assert one == other and "valid_f1" in ran.stdout


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    """Every file that a page links to is there, and every heading within a page."""
    folder = PATHS[name].parent
    headings = {_anchor(heading) for heading in re.findall(r"^#+ (.*)$", PAGES[name], re.MULTILINE)}
    for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[name]):
        path, _, heading = target.partition("#")
        assert target.startswith("http") or not path or (folder / path).is_file(), target
        assert path or heading in headings, target


def _anchor(heading):
    return "".join(mark for mark in heading.lower().replace(" ", "-") if mark.isalnum() or mark in "-_")


def test_the_sums_of_faults_are_those_of_the_card():
    """The columns of reliability.md, added up: hosts of hpometrics together, the others each alone."""
    sums = {"hpometrics": [0] * 6, "bare Optuna": [0] * 6, "bare Ray": [0] * 6}
    for host, *numbers in re.findall(
        r"^\|[^|]+\| (hpometrics|bare \w+)[^|]*" + r"\| (\d+) +" * 6, PAGES["reliability.md"], re.MULTILINE
    ):
        sums[host] = [total + int(number) for total, number in zip(sums[host], numbers, strict=True)]
    for host, numbers in sums.items():
        row = rf"^\| {host}[^|]* \| {' . '.join(map(str, numbers))} \|$"
        assert re.search(row, PAGES["reliability.md"], re.MULTILINE), host
    ours, others = sums["hpometrics"], sums["bare Optuna"]
    text = " ".join(README.split())
    assert f"It survived {ours[1]} of {ours[0]} faults in real processes" in text
    assert f"(bare Optuna: {others[1]} of {others[0]})" in text


def test_the_table_of_laws_has_a_row_for_each_law():
    """In the order of the laws, with as many metrics in each row; the law of a device needs a device."""
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|", PAGES["laws.md"], re.MULTILINE)
    assert [name for name, *_ in rows] == [law_name(law) for law in LAWS if law is not check_device]
    assert len({sum(map(int, numbers)) for _, *numbers in rows}) == 1


TABLES = {
    "reliability.md": PAGES["reliability.md"].partition("| --- | --- |\n")[2].partition("\n\n")[0],
    "clusters.md": PAGES["clusters.md"]
    .partition("| what is lost | test |\n|---|---|---|\n")[2]
    .partition("\n\n")[0],
}
"""The tables of promises, whose rows end in the name of a test."""
PROMISES = [
    row for table in TABLES.values() for row in re.findall(r" \| `([^`|]+)::(\w+)` \|$", table, re.MULTILINE)
]


def test_every_promise_has_a_test():
    """Each row of the tables of what survives and of what is lost ends in one."""
    assert len(PROMISES) == sum(len(table.splitlines()) for table in TABLES.values())
    assert all(len(table.splitlines()) >= 10 for table in TABLES.values())


@pytest.mark.parametrize(("file", "name"), PROMISES)
def test_the_test_of_a_promise_is_there_and_runs(file, name):
    """A function of that file, which no mark skips everywhere."""
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf8"))
    tests = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in tests, f"tests/{file} has no {name}"
    marks = [ast.unparse(mark) for mark in tests[name].decorator_list]
    assert not [mark for mark in marks if re.search(r"mark\.(skip\b|xfail)", mark)]


def test_the_job_for_kubernetes_runs_commands_that_there_are(tmp_path, monkeypatch):
    """The manifest is YAML; its command and that of the run parse, and its URL is that of a storage."""
    monkeypatch.chdir(tmp_path)
    page = PAGES["clusters.md"]
    job = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert job["spec"]["completions"] == job["spec"]["parallelism"]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"  # which both limits of failures need
    [container] = job["spec"]["template"]["spec"]["containers"]
    run = json.loads(re.search(r"`(\[\"hpometrics\".*?\])`", page)[1])
    for first, name, *arguments in (run, container["command"]):
        assert first == "hpometrics"
        command = main.get_command(click.Context(main, **main.context_settings), name)
        assert command is not None, name
        command.make_context(
            name, arguments, parent=click.Context(main, **main.context_settings)
        )  # raises for a flag that it does not have
    monkeypatch.setenv("PGPASSWORD", "a/b@c")
    assert url_of(container["command"][2]) == "postgresql://ada:a%2Fb%40c@db/studies"


QUICKSTART = ROOT / "configs/quickstart.yaml"
SHOWN = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)[1]
END = re.search(r"```text\n(# engine params evaluated.*?)```", README, re.DOTALL)[1]


def test_the_end_of_the_quickstart_is_what_is_shown(tmp_path, monkeypatch):
    """The shipped file prints its params, metrics and directions; numbers are those of one machine."""
    monkeypatch.chdir(ROOT)
    home = tmp_path / "run"
    ran = run_here(QUICKSTART, "budget.trials=10", "budget.epochs=4", f"results.dir={home}")
    assert ran.exit_code == 0, ran.stderr
    check_end(ran.stdout)
    check_best(yaml.safe_load(QUICKSTART.read_text(encoding="utf8")), home)


@EXHAUSTIVE
def test_the_whole_quickstart_ends_as_is_shown(tmp_path):
    """As a reader types it, but for the directory."""
    command = [sys.executable, "-m", "hpometrics", "run", "configs/quickstart.yaml", "--set"]
    ran = subprocess.run(
        [*command, f"results.dir={tmp_path}/run"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    check_end(ran.stdout)


def check_end(printed):
    """It is what the README shows; how the winner was confirmed may end otherwise on another machine."""
    shown, (confirmed, value, *_) = END.split("Winner: ")[0], END.split("Winner: ")[1].splitlines()
    assert without_numbers(shown) in without_numbers(printed)
    winner, expected = printed[printed.index("Winner: ") :].removeprefix("Winner: ").splitlines()[:2]
    ends = r"trial \d+, (decided|practically tied with [\d, and]+|not decided after \d+ trainings)   lr="
    assert re.match(ends, winner) and re.match(ends, confirmed)
    assert without_numbers(expected) == without_numbers(value)


@pytest.mark.parametrize(("path", "excerpt"), EXCERPTS, ids=[path for path, _ in EXCERPTS])
def test_an_excerpt_is_of_its_file(path, excerpt):
    """It stands in the example that it names, but for what `...` leaves out; the tests run the example."""
    rest = "".join((ROOT / path).read_text(encoding="utf8").split())
    for piece in filter(None, "".join(excerpt.split()).split("...")):
        _, there, rest = rest.partition(piece)
        assert there, piece


def test_the_readme_is_short():
    """A reader sees it in a minute; its pictures load at once."""
    assert len(README.splitlines()) <= 150 and len(README) <= 9_000
    pictures = [ROOT / picture for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)]
    assert len(pictures) == 2 and all(picture.stat().st_size <= 500_000 for picture in pictures)


def test_the_file_of_five_lines_runs(tmp_path, monkeypatch):
    """Its params, budget and confirmation are those of the quickstart, and it optimizes the same metric."""
    file, shipped = yaml.safe_load(SHOWN), yaml.safe_load(QUICKSTART.read_text(encoding="utf8"))
    assert len(SHOWN.splitlines()) == len(file) == 5
    assert file["space"].items() <= shipped["space"].items()
    assert file["metrics"].items() <= shipped["metrics"].items()
    assert {*file["space"], *file["engine"]["params"]} == {*shipped["space"]}
    assert file["engine"]["target"] == shipped["engine"]
    assert (file["budget"], file["confirm"]) == (shipped["budget"], shipped["confirm"])
    monkeypatch.chdir(ROOT)
    path, home = tmp_path / "shown.yaml", tmp_path / "run"
    path.write_text(SHOWN, encoding="utf8")
    ran = run_here(path, "budget.trials=3", "budget.epochs=1", "confirm.top=2", f"results.dir={home}")
    assert ran.exit_code == 0, ran.stderr
    check_best(file, home)


def test_the_search_of_engine_params_is_the_shipped_one():
    """The file shown is `configs/engine_params.yaml`."""
    shown = re.search(r"```yaml\n(.*?)```", STAGES, re.DOTALL)[1]
    shipped = (ROOT / "configs/engine_params.yaml").read_text(encoding="utf8")
    assert yaml.safe_load(shown) == yaml.safe_load(shipped)


def test_the_front_is_that_of_the_shipped_sweep(tmp_path, monkeypatch):
    """It is a front with its knee; its first trials have the params and the sizes that the sweep draws."""
    row = r"  trial (\d+), .*: accuracy ([\d.]+) \^  params_k ([\d.]+) v   (lr=\S+ width=\S+ layers=\d)( .*)?"
    shown = re.findall(
        row, re.search(r"```text\n(Pareto front of.*?)```", PAGES["several-objectives.md"], re.DOTALL)[1]
    )
    points, ways = [(float(accuracy), float(size)) for _, accuracy, size, *_ in shown], [MAXIMIZE, MINIMIZE]
    assert front_of(points, ways) == list(range(len(shown)))
    assert [bool(mark) for *_, mark in shown].index(True) == knee_of(points, ways)
    monkeypatch.chdir(ROOT)
    path = ROOT / "configs" / "small_digits.yaml"
    ran = run_here(path, "budget.trials=2", "budget.epochs=1", f"results.dir={tmp_path}")
    assert ran.exit_code == 0, ran.stderr
    drawn = {int(number): (size, params) for number, _, size, params, _ in re.findall(row, ran.stdout)}
    assert len(drawn) == 2
    assert drawn.items() <= {int(number): (size, params) for number, _, size, params, _ in shown}.items()


BENCHMARK = json.loads((ROOT / "benchmarks" / "confirm.json").read_text(encoding="utf8"))
SEARCH, CONFIRM = "best of 100", "confirm 5 x 8 (default)"
BOTH = FEW, MANY = [BENCHMARK["tables"][f"digits, accuracy, {rows} rows"] for rows in (300, 1200)]
COVERS = "covers the params'"


def figure(facts, name, form=".1f"):
    """A mean of the benchmark, as a page prints it."""
    return f"{facts[name][0]:{form}}"


def costs(facts, form):
    """How often a way finds the best, and what it loses."""
    return f"{figure(facts, 'finds')} %", figure(facts, "loss", form)


def test_the_head_of_the_benchmark_is_its_output():
    """The tables of README and of the user's page are those of `benchmarks/confirm.json`, rounded."""
    assert BENCHMARK["settings"]["worlds"] == 1000
    search, confirm = FEW[SEARCH], FEW[CONFIRM]
    (finds, loss), (found, lost) = costs(search, ".2f"), costs(confirm, ".2f")
    covers, honest = figure(search, COVERS, ".0f"), figure(confirm, "honest covers", ".0f")
    trained = f"60 + {figure(confirm, 'trainings')}"
    name = "**60 trials, then `confirm: true`**"
    assert f"| best of 100 trials | {finds} | {loss} points | 100 | {covers} % |\n" in README
    assert f"| {name} | **{found}** | **{lost} points** | {trained} | **{honest} %** |\n" in README
    user = PAGES["winner.md"]
    assert f"| best of 100 trials | {finds} | {loss} points | 100 |\n" in user
    for count, seeds in ((50, 2), (33, 3)):
        way = f"best of {count}, {seeds} seeds each"
        assert f"| {way} | {' | '.join(costs(FEW[way], '.2f'))} | {count * seeds} |\n" in user
    assert f"| {name} | **{found}** | **{lost}** | {trained} |\n" in user
    finds, loss = costs(MANY[SEARCH], ".2f")
    assert f"| the same with 1,200 rows: best of 100 | {finds} | {loss} | 100 |\n" in user
    found, lost = costs(MANY[CONFIRM], ".2f")
    trained = f"60 + {figure(MANY[CONFIRM], 'trainings')}"
    assert f"| {name} | **{found}** | **{lost}** | {trained} |\n" in user
    text, bias = " ".join(user.split()), figure(search, "bias as the params'")
    percent = figure(search, "finds", ".0f")
    assert f"the truly best one in {percent} % of sweeps, and its value is {bias} points too high" in text
    assert f"contained the true value in {honest} % of the sweeps" in text
    assert f"search's own value contained the true value in {covers} %" in text
    names = {"accuracy": "accuracy", "Brier": "the Brier score", "log loss": "log loss"}
    small = {name: BENCHMARK["tables"][f"breast cancer, {name}, 150 rows"][CONFIRM] for name in names}
    shares = [f"{figure(small[name], 'honest covers')} % for {word}" for name, word in names.items()]
    assert f"gave {shares[0]}, {shares[1]}, and {shares[2]}" in text
    assert f"true loss was larger in {figure(confirm, 'may_lose broken')} % of the sweeps" in text


METHOD = PAGES["winner-method.md"].splitlines()


def test_the_page_with_the_method_prints_what_each_way_finds():
    """And the trainings that it takes, as the benchmark wrote them."""
    for way in (SEARCH, "best of 50, 2 seeds each", "best of 33, 3 seeds each"):
        few, many = (
            f"{', '.join(costs(of[way], '.3f'))}, {figure(of[way], 'trainings', '.0f')}" for of in BOTH
        )
        assert f"| {way} | {few} | {many} |" in METHOD
    for way, name in (
        ("confirm 5 x 8, equivalence 0", "confirm, equivalence 0"),
        (CONFIRM, "confirm (default)"),
    ):
        _, *cells = next(row for row in METHOD if row.startswith(f"| {name} | ")).split(" | ")
        for cell, of in zip(cells, BOTH, strict=True):
            begin = f"{', '.join(costs(of[way], '.3f'))}, 60 + {figure(of[way], 'trainings')}; "
            assert cell.startswith(begin), begin


@pytest.mark.parametrize(
    ("row", "way", "bias", "covers"),
    [
        (
            "the search's own, of the trained model",
            "best of 100",
            "bias as the model's",
            "covers the model's",
        ),
        ("the search's own, of the params", SEARCH, "bias as the params'", COVERS),
        ("mean of the fresh runs", CONFIRM, "mean bias", "mean covers"),
        ("**honest value**", CONFIRM, "honest bias", "honest covers"),
    ],
)
def test_the_page_with_the_method_prints_the_value_of_the_winner(row, way, bias, covers):
    """Its bias and its coverage, as the benchmark wrote them."""
    mark = "**" * row.startswith("*")
    cells = [f"{mark}{figure(of[way], bias, '+.2f')}; {figure(of[way], covers)} %{mark}" for of in BOTH]
    assert f"| {row} | {' | '.join(cells)} |" in METHOD


def test_the_page_with_the_method_prints_the_other_tables():
    """Those of configurations that are equal, and those of the second data set."""
    tables = BENCHMARK["tables"]
    for equal, poor in ((20, 80), (2, 10)):
        found = [tables[f"{equal} exactly equal, {poor} poorer, {rows} rows"] for rows in (300, 1200)]
        cells = [" / ".join(figure(of[way], "decided wrongly") for way in of) for of in found]
        assert f"| {equal} equal, {poor} poorer | {' % | '.join(cells)} % |" in METHOD
    for name, form in (("accuracy", ".3f"), ("Brier", ".3f"), ("log loss", ".2f")):
        for rows in (150, 400):
            search, one = (
                tables[f"breast cancer, {name}, {rows} rows"][way] for way in ("best of 60", CONFIRM)
            )
            cells = [
                f"{name}, {rows} rows",
                f"{figure(one, 'loss', form)}, {figure(search, 'loss', form)}",
                f"{figure(one, 'honest covers')} %, {figure(one, 'honest bias', '+.2f')}",
                f"{figure(search, COVERS)} %",
                f"{figure(one, 'may_lose broken')} %",
            ]
            assert f"| {' | '.join(cells)} |" in METHOD


def test_the_trials_that_are_compared_are_of_the_shipped_sweep(tmp_path, monkeypatch):
    """The command that is printed finds values by user in the directory that the sweep leaves."""
    command, name, last = re.search(
        r"hpometrics (compare runs/(recommender) \d+ (\d+)) ", PAGES["sweeps.md"]
    ).groups()
    fewer = [f"budget.trials={int(last) + 1}", "budget.epochs=1", f"results.dir={tmp_path}/runs/{name}"]
    monkeypatch.chdir(ROOT)
    ran = run_here(ROOT / "configs" / f"{name}.yaml", *fewer)
    assert ran.exit_code == 0, ran.stderr
    monkeypatch.chdir(tmp_path)
    ran = call(*command.split())
    assert ran.exit_code == 0, ran.stderr
    assert re.search(r"ndcg@10: .*these 1000 users|ndcg@10: trial \d is better", ran.stdout)


def test_the_evaluation_prints_what_is_shown(tmp_path):
    """The lines of `hpometrics eval`, but for the id of the run."""
    shown = re.search(r"```text\n(Starting evaluation.*?)```", STAGES, re.DOTALL)[1].splitlines()
    targets = [f"examples.engine_params:{name}" for name in ("PrecisionEvaluation", "LAMBDAS")]
    ran = hpometrics("eval", *targets, folder=tmp_path).result()
    assert ran.returncode == 0, ran.stderr
    assert [line.rstrip() for line in ran.stdout.splitlines()][1:] == shown[1:]


EXACT = "confirm 5 x 8, equivalence 0"


def wrongly(table, form):
    """How often "decided" is wrong, with an equivalence of 0 and with the default, as the page prints it."""
    return " / ".join(
        figure(BENCHMARK["tables"][table][way], "decided wrongly", form) for way in (EXACT, CONFIRM)
    )


@pytest.mark.parametrize(
    ("row", "tables", "form"),
    [
        *(
            (equal, [f"{tables}, {rows} rows" for rows in (300, 1200)], ".1f")
            for equal, tables in (
                ("20 equal, 80 poorer", "20 exactly equal, 80 poorer"),
                ("2 equal, 10 poorer", "2 exactly equal, 10 poorer"),
            )
        ),
        *(
            (row, [f"normal values, {case}, rows {deviation}" for deviation in ("0", "0.5", "1")], ".2f")
            for row, case in (
                ("2 equal, 3 far", "2 equal, 3 far"),
                ("the same, deviations of seeds 3 and 0.5", "2 equal, seeds 3 and 0.5, 3 far"),
                ("5 equal", "5 equal"),
            )
        ),
    ],
)
def test_the_page_with_the_method_prints_how_often_decided_is_wrong(row, tables, form):
    """Of equal configurations, as the benchmark wrote it."""
    assert f"| {row} | {' | '.join(f'{wrongly(table, form)} %' for table in tables)} |" in METHOD


def test_the_page_with_the_method_prints_the_power():
    """How often a single better contender is decided, as the benchmark wrote it."""
    gaps = [BENCHMARK["tables"][f"normal values, gap of {gap} deviations"] for gap in ("1", "1.5", "2", "3")]
    *some, last = (figure(gap[EXACT], "decided", ".0f") for gap in gaps)
    assert f"is decided in {', '.join(some)} and {last} % (equivalence 0)" in " ".join(METHOD)


@pytest.mark.parametrize(
    ("metric", "rows", "form"),
    [
        *(("accuracy", rows, ".3f") for rows in (150, 400)),
        *(("Brier", rows, ".3f") for rows in (150, 400)),
        *(("log loss", rows, ".2f") for rows in (150, 400)),
    ],
)
def test_the_page_with_the_method_prints_the_second_table(metric, rows, form):
    """Each metric and number of rows, whatever the benchmark found."""
    ways = BENCHMARK["tables"][f"breast cancer, {metric}, {rows} rows"]
    search, confirm = ways["best of 60"], ways[CONFIRM]
    cells = (
        f"{metric}, {rows} rows",
        f"{figure(confirm, 'loss', form)}, {figure(search, 'loss', form)}",
        f"{figure(confirm, 'honest covers')} %, {figure(confirm, 'honest bias', '+.2f')}",
        f"{figure(search, COVERS)} %",
        f"{figure(confirm, 'may_lose broken')} %",
    )
    assert f"| {' | '.join(cells)} |" in METHOD


def test_the_benchmark_ran_whole_and_misses_what_the_page_says():
    """On the second table alone; the product computes what the pure core does."""
    assert BENCHMARK["settings"]["whole"]
    missed = [bar for bar in BENCHMARK["bars"] if not bar["kept"]]
    assert missed and all(
        "breast cancer, Brier, 150" in bar["name"] or "log loss" in bar["name"] for bar in missed
    )
