from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from hpometrics.cli.main import main
from hpometrics.metrics.retrieval.comparison import compare_all, compare_strata
from hpometrics.metrics.retrieval.per_user import PerUser
from hpometrics.results.run_directory import RunDirectory

POINTS = "[{lr: 0.1}, {lr: 3.0}, {lr: 0.1001}, {lr: 1.0, first: 20}, {lr: 1.0, first: 40}]"
SWEEP = (
    "engine: {target: toy_engine:rank, output: ranking(per_user=true)}\n"
    "metrics: {optimize: ndcg@3, track: [recall@3]}\n"
    f"backend: {{list: {POINTS}}}\nbudget: {{epochs: 2}}\n"
)
SEVERAL = (
    "engine: {target: toy_engine:rank_widest_in_the_middle, output: ranking(per_user=true)}\n"
    "metrics: {optimize: [item_coverage@3, ndcg@3, fall_out@3], track: [recall@3]}\n"
    "backend: {list: [{lr: 0.1}, {lr: 3.0}]}\nbudget: {epochs: 3}\n"
)


def compared(*arguments: str) -> Result:
    """Call `hpometrics compare runs/sweep ...` in this process."""
    return CliRunner().invoke(main, ["compare", "runs/sweep", *arguments])


@pytest.fixture
def ran(swept, folder):
    """A sweep with values by user."""
    result = swept(SWEEP)
    assert result.exit_code == 0, result.output
    return folder / "runs" / "sweep" / "trials"


def test_every_trial_has_its_table(ran):
    """A row per user, a column per metric; their mean is the recorded value."""
    for number in range(5):
        files = {path.name for path in (ran / f"{number:04d}").iterdir()}
        assert files == {".trainstats", "epochs.jsonl", "trial.json", "per_user.csv", "statistics.jsonl"}
    table = PerUser.read_csv(ran / "0003" / "per_user.csv")
    assert list(table) == ["ndcg@3", "recall@3"]
    assert table["ndcg@3"][0].tolist() == list(range(20, 60))
    told = (ran.parent / "trials.csv").read_text().splitlines()[4].split(",")
    assert table["ndcg@3"][1].double().mean().item() == pytest.approx(float(told[2]), rel=1e-6)


def test_a_better_trial_is_named(ran):
    """The table has what `compare_all` gives, whichever trial is named first."""
    a, b = (PerUser.read(ran / f"000{number}" / "per_user.csv") for number in (0, 1))
    expected = compare_all(a, b)["ndcg@3"]
    result = compared("0", "1")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == [
        "metric", "trial", "0", "trial", "1", "difference", "95%", "interval", "p", "effect", "users",
    ]  # fmt: skip
    cells = lines[2].split()
    assert cells[:4] == [
        "ndcg@3", f"{expected.mean_a:.6g}", f"{expected.mean_b:.6g}", f"{expected.difference:+.3g}",
    ]  # fmt: skip
    assert cells[4:7] == [f"{expected.low:+.3g}", "..", f"{expected.high:+.3g}"]
    assert cells[-2:] == [f"{expected.effect_size:+.2f}", "40"]
    assert "ndcg@3: trial 1 is better (maximize, p <0.0001)" in result.stdout
    assert "recall@3: trial 1 is better (maximize, p <0.0001)" in result.stdout
    assert "ndcg@3: trial 1 is better" in compared("1", "0").stdout


def test_the_same_comparison_as_json(ran):
    """Every number unrounded, and the sentence; an effect without a spread is null."""
    expected = compare_all(*(PerUser.read(ran / f"000{number}" / "per_user.csv") for number in (0, 1)))
    told = json.loads(compared("0", "1", "--json").stdout)
    assert (told["trials"], told["left_out"]) == ([0, 1], [])
    for row in told["compared"]:
        assert row["difference"] == expected[row["metric"]].difference
        assert row["said"] == f"{row['metric']}: trial 1 is better (maximize, p <0.0001)"
    same = json.loads(compared("0", "0", "--metric", "ndcg@3", "--json").stdout)
    assert same["compared"][0]["effect_size"] is None


def test_what_cannot_be_told_apart_is_a_coin_toss(ran):
    """Two trials that rank alike; one metric alone is asked for."""
    result = compared("0", "2", "--metric", "recall@3")
    assert "recall@3: the difference is not statistically significant for these 40 users" in result.stdout
    assert "ndcg@3" not in result.stdout


def test_users_of_one_trial_alone_are_left_out_and_told(ran):
    """Users 0 to 39 and 20 to 59 share twenty; p is corrected for the two metrics."""
    result = compared("1", "3")
    assert result.exit_code == 0, result.output
    expected = compare_all(*(PerUser.read(ran / f"000{number}" / "per_user.csv") for number in (1, 3)))
    cells = result.stdout.splitlines()[2].split()
    assert (cells[-3], cells[-1]) == (f"{expected['ndcg@3'].p_value:.2g}", "20")
    left_out = "ndcg@3 leaves out users without a value in the other trial: 20 of trial 1 and 20 of trial 3"
    assert left_out in result.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("0", "9"), "runs/sweep: has no trial 9; there are 0, 1, 2, 3, 4"),
        (
            ("0", "1", "--metric", "mrr@3"),
            "trials 0 and 1 do not both have values of 'mrr@3' by user; they share ndcg@3, recall@3",
        ),
        (
            ("0", "4"),
            "ndcg@3: no user has a value in both; compare models measured on the same users with the same "
            "user numbers. 40 users from 0 to 39 in one, 40 users from 40 to 79 in the other",
        ),
    ],
)
def test_what_cannot_be_compared_is_said(arguments, problem, ran):
    """In one line, with exit code 2."""
    result = compared(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"{problem}\n")


@pytest.mark.parametrize("options", [("--direction", "maximize"), ("--bh",), ("--raw",), ("--all",)])
def test_users_are_compared_in_one_way(options, ran):
    """An option of another comparison is refused, not ignored."""
    result = compared("0", "1", *options)
    assert result.exit_code == 2 and "supports only --metric and --by" in " ".join(result.stderr.split())


def test_a_trial_without_values_says_what_to_ask_for(sweep, folder):
    """The output of the engine did not ask; neither file nor folder is left of them."""
    assert sweep(SWEEP.replace("(per_user=true)", "")).exit_code == 0
    assert not list((folder / "runs").rglob("per_user*"))
    result = compared("0", "1")
    assert result.exit_code == 2
    assert "trial 0 (complete) has no stored values by user" in result.stderr
    assert "To store them, set output: ranking(per_user=true) in the sweep file" in result.stderr


def test_a_line_names_the_comparison_of_fresh_trainings(sweep, folder):
    """Users are those of the search; for trials that were trained again there is a better comparison."""
    assert sweep(f"{SWEEP}confirm: {{top: 2, repeats: 3}}\n").exit_code == 0
    end = json.loads((folder / "runs/sweep/confirm.json").read_text())["end"]
    pair = [str(one["trial"]) for one in end["standings"]]
    (other, *_) = {*"01234"} - {*pair}
    said = f"hpometrics compare runs/sweep:{pair[0]} runs/sweep:{pair[1]} compares their fresh trainings"
    assert said in compared(*pair).stdout
    assert "fresh trainings" not in compared(pair[0], other).stdout
    models = [f"runs/sweep:{trial}" for trial in pair]
    (found,) = json.loads(CliRunner().invoke(main, ["compare", *models, "--json"]).stdout)
    assert found["seeds"] == 3 and "fresh trainings of each, under the same seeds" in found["notes"][0]


def test_an_output_without_users_is_compared_row_by_row(sweep, folder):
    """Rows are kept if the sweep asks for them; else the message says how."""
    classes = "engine: {target: toy_engine:train, output: binary}\nspace: {lr: {float: [0.1, 1]}}\n"
    text = f"{classes}metrics: {{optimize: roc_auc}}\nsearch: {{seed: 3}}\nbudget: {{trials: 2, epochs: 1}}\n"
    assert sweep(text).exit_code == 0
    result = compared("0", "1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        "runs/sweep:0: roc_auc cannot be computed from a confusion matrix alone, and no rows" in result.stderr
    )
    assert "results: {statistics: rows}" in result.stderr
    result = compared("0", "1", "--metric", "accuracy")  # of which each trial keeps a confusion matrix
    assert result.exit_code == 0, result.output
    assert (
        "unpaired t p" in result.stdout and "not paired: the models may have different rows" in result.stdout
    )


def test_another_directory_is_refused(folder):
    """It is not a run directory."""
    assert "runs/sweep: is not a run directory" in compared("0", "1").stderr


@pytest.fixture
def known(sweep, folder):
    """A sweep whose output knows groups of users and the popularity of items."""
    changed = SWEEP.replace("toy_engine:rank, output: ranking(per_user=true)", "toy_engine:rank_known")
    assert sweep(changed).exit_code == 0
    return folder / "runs" / "sweep" / "trials"


def test_groups_of_users_are_compared_one_by_one(known):
    """Of 20 and 18 users; p is corrected over metrics and groups; who is alone, or in no group, is told."""
    a, b = (PerUser.read(known / f"000{number}" / "per_user.csv") for number in (0, 1))
    expected = compare_strata(a, b, "group")
    result = compared("0", "1", "--by", "group")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["metric", "group", "trial"]
    cells = [line.split() for line in lines[2:6]]
    assert [row[:3] + row[-1:] for row in cells] == [
        [metric, "group", str(group), str(users)]
        for metric in ("ndcg@3", "recall@3")
        for group, users in ((0, 19), (1, 19))
    ]
    assert cells[1][5] == f"{expected['ndcg@3', 1].difference:+.3g}"
    assert "ndcg@3, group 0: trial 1 is better (maximize, p " in result.stdout
    assert "ndcg@3, group 2: fewer than two users have a value in both trials" in lines
    assert "ndcg@3 leaves out users without a known group: 1" in lines


def test_users_are_compared_by_how_popular_what_they_like_is(known):
    """Items 0 to 7 are liked by five users each; thirds are cut before items 2 and 5."""
    result = compared("0", "1", "--by", "popularity", "--metric", "ndcg@3")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()[2:5]]
    assert [(row[2], row[-1]) for row in rows] == [("low", "10"), ("middle", "15"), ("high", "15")]


def test_strata_that_were_not_kept_are_said(ran):
    """With what the output would have to tell."""
    result = compared("0", "1", "--by", "group")
    assert result.exit_code == 2
    assert (
        "ndcg@3: no group of users is stored; the stored strata are none. Pass Ranking(user_groups="
        in result.stderr
    )


@pytest.fixture
def several(sweep, folder):
    """A sweep for three objectives, of which one has no value of a single user."""
    result = sweep(SEVERAL)
    assert result.exit_code == 0, result.output
    return RunDirectory(folder / "runs" / "sweep")


def test_trials_are_compared_by_each_objective(several):
    """At the epoch that counts for the trial, each in its own direction, whichever is named first."""
    records = several.records()
    assert [record.epoch for record in records] == [1, 1]  # neither the first nor the last
    told = json.loads(compared("0", "1", "--json").stdout)
    rows = {row["metric"]: row for row in told["compared"]}
    assert list(rows) == ["ndcg@3", "fall_out@3", "recall@3"]
    for name, row in rows.items():
        picked = [record.picked_values[name] for record in records]
        assert [row["mean_a"], row["mean_b"]] == pytest.approx(picked, rel=1e-6)
        assert row["difference"] == pytest.approx(picked[0] - picked[1], rel=1e-6)
    assert rows["ndcg@3"]["said"] == "ndcg@3: trial 1 is better (maximize, p <0.0001)"
    assert rows["fall_out@3"]["said"] == "fall_out@3: trial 1 is better (minimize, p <0.0001)"
    assert "fall_out@3: trial 1 is better (minimize, p <0.0001)" in compared("1", "0").stdout


def test_an_objective_without_values_by_user_is_told_as_it_is(several):
    """Nothing can be said of the difference; where others are asked for by name it is not asked for."""
    told = "item_coverage@3 has no values by user: trial 0 has 8, trial 1 has 8 (maximize)"
    assert compared("0", "1").stdout.splitlines()[-1] == told
    assert json.loads(compared("0", "1", "--json").stdout)["left_out"] == [told]
    assert "item_coverage@3" not in compared("0", "1", "--metric", "ndcg@3").stdout
    refused = compared("0", "1", "--metric", "item_coverage@3")
    assert refused.exit_code == 2
    assert "they share ndcg@3, fall_out@3, recall@3" in refused.stderr
