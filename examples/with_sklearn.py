"""An estimator of scikit-learn that learns by epochs, searched by Optuna: python examples/with_sklearn.py."""

from __future__ import annotations

import optuna
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, train_test_split

from hpometrics import Category, Run
from hpometrics.integrations.sklearn import as_scorer, estimator_outputs

X, Y = load_digits(return_X_y=True)
METRIC, OUTPUT = "f1(average=macro)", Category(10)


def objective(trial: optuna.Trial) -> float:
    """Learn epoch by epoch; what is hopeless is stopped."""
    x, x_valid, y, y_valid = train_test_split(X / 16, Y, random_state=0, stratify=Y)
    model = SGDClassifier(
        loss="log_loss", alpha=trial.suggest_float("alpha", 1e-6, 1.0, log=True), random_state=0
    )
    run = Run(trial, metric=METRIC, output=OUTPUT)
    for _ in run.epochs(5):
        model.partial_fit(x, y, classes=range(10))
        run.update(**estimator_outputs(model, x_valid, y_valid, OUTPUT))
    return run.value


def main(trials: int = 8) -> None:
    """Optimize it; then let scikit-learn search by the same metric."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler, pruner = optuna.samplers.TPESampler(seed=7), optuna.pruners.MedianPruner(n_startup_trials=3)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    study.optimize(objective, n_trials=trials)
    print(f"{METRIC} {study.best_value:.4f} with {study.best_params}")

    grid = {"alpha": [1e-4, 1e-2, 1.0]}
    search = GridSearchCV(SGDClassifier(random_state=0), grid, scoring=as_scorer(METRIC, OUTPUT), cv=3)
    search.fit(X / 16, Y)
    print(f"{search.best_score_:.4f} over folds with {search.best_params_}")


if __name__ == "__main__":
    main()
