from __future__ import annotations

import pytest
from bare_optuna import BareOptuna
from forked import Forked
from injured import Injured


def test_a_run_and_three_workers_open_a_new_study_at_once(tmp_path, card, rounds):
    """None of them fails, and the budget is kept."""
    tried = rounds(10)
    for number in range(tried):
        folder = tmp_path / str(number)
        folder.mkdir()
        injured = Injured(folder, trials=8)
        run = injured.start()
        assert run.waits_for(injured.home.resolved.exists), injured.err()
        codes = [process.ended() for process in [run, *(injured.join() for _ in range(3))]]
        assert codes == [0, 0, 0, 0], injured.err()
        card(injured.toll("4 processes create the study at once", 4, codes.count(0)))


@pytest.mark.thorough
def test_four_bare_processes_create_a_study_at_once(tmp_path, card, rounds):
    """The same with Optuna alone."""
    for number in range(rounds(10)):
        folder = tmp_path / str(number)
        folder.mkdir()
        bare = BareOptuna(folder, trials=8)
        codes = [process.ended() for process in [bare.start() for _ in range(4)]]
        card(bare.toll("4 processes create the study at once", 4, codes.count(0)))


def test_of_four_runs_of_one_directory_one_works(tmp_path, card):
    """The others are refused by name and leave everything alone."""
    injured = Injured(tmp_path)
    injured.harm("hold")
    processes: list[Forked] = [injured.start() for _ in range(4)]
    while sum(process.lives(0.01) for process in processes) > 1:
        pass
    injured.heal()
    codes = sorted(process.ended() for process in processes)
    assert codes == [0, 2, 2, 2]
    assert injured.err().count("another run is using it; wait for it or stop it") == 3
    card(injured.toll("4 runs in one directory", 4, 4 * (injured.whole() == set(range(6)))))


@pytest.mark.thorough
def test_four_bare_processes_overshoot_the_budget_and_so_does_each_restart(tmp_path, card):
    """A budget of 20 by `MaxTrialsCallback`."""
    bare = BareOptuna(tmp_path, trials=20)
    first = bare.start()
    first.waits_for(lambda: bare.is_at_work(first))
    codes = [process.ended() for process in [first, *(bare.join() for _ in range(3))]]
    card(bare.toll("a budget of 20 by 4 workers", 4, codes.count(0)))


def test_the_budget_is_exact_with_four_workers_and_five_restarts(tmp_path, card):
    """Each slot is reserved once."""
    injured = Injured(tmp_path, trials=20)
    run = injured.start()
    assert run.waits_for(injured.home.resolved.exists), injured.err()
    codes = [process.ended() for process in [run, *(injured.join() for _ in range(3))]]
    codes += [injured.run() for _ in range(5)]
    card(injured.toll("a budget of 20 by 4 workers", 4, codes[:4].count(0)))
    assert injured.whole() == set(range(20))
