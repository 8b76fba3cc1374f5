"""The part of the build that pyproject.toml cannot state: version, URLs, and what the wheel leaves out.

PROJECT_URL is the address of the repository, as in https://example.org/owner/hpometrics. A build without it
works, states no URLs, and leaves the README's links relative; `make release` refuses such a build.
"""

import json
import os
import re
from email import message_from_string
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PLACES = {
    "Homepage": "",
    "Documentation": "/tree/v{version}/docs",
    "Source": "/tree/v{version}",
    "Issues": "/issues",
    "Changelog": "/blob/v{version}/CHANGELOG.md",
}

CHECKOUT_ONLY = {
    "hpometrics.testing": {"__main__", "bare", "scorecard"},
}
"""Modules that print the scorecard of this repository; no command needs them."""


PAGE_TEXTS = {"docs", "raises", "deviates", "source", "shape", "formula", "value"}
"""Facts of a metric that its page shows alone; see `MetricEntry.documented`."""


class BuildPackage(build_py):
    """Copies the package as users need it; an editable install has all of it."""

    def find_package_modules(self, package, package_dir):
        """Leave out the modules that only a checkout needs."""
        left_out = set() if self.editable_mode else CHECKOUT_ONLY.get(package, set())
        return [one for one in super().find_package_modules(package, package_dir) if one[1] not in left_out]

    def run(self):
        """Pack the index of the metrics too: neighbors that share their words take a fifth less.

        The texts that only the page of a metric shows stand in its class.
        """
        super().run()
        index = Path(self.build_lib, "hpometrics/metrics/registry/index.json")
        if not self.editable_mode:
            rows = sorted(json.loads(index.read_text("utf8")), key=lambda row: (row["path"], row["name"]))
            rows = [{key: row[key] for key in row if key not in PAGE_TEXTS} for row in rows]
            index.write_text(json.dumps(rows, separators=(",", ":"), ensure_ascii=False), "utf8")


def project_url() -> str:
    """Return the setting, or what an unpacked sdist was built with."""
    url = os.environ.get("PROJECT_URL", "").rstrip("/")
    stated = ROOT / "PKG-INFO"
    if not url and stated.exists():
        lines = message_from_string(stated.read_text(encoding="utf8")).get_all("Project-URL", [])
        url = next((line.partition(", ")[2] for line in lines if line.startswith("Homepage,")), "")
    if url and not re.fullmatch(r"https?://[^\s/]+/\S+", url):
        raise SystemExit(f"PROJECT_URL must be an address, as https://host/owner/name, got {url!r}")
    return url


def absolute(text: str, base: str) -> str:
    """Lead each relative link of a page in Markdown to a file below `base`; those within the page stay.

    An image leads to the file itself, whose address has `raw` where that of a page has `blob`.
    """
    raw = base.replace("/blob/", "/raw/")
    text = re.sub(r"(!\[[^\]]*)\]\((?!\w+:)([^)\s]+)\)", rf"\1]({raw}/\2)", text)
    return re.sub(r"\]\((?!\w+:|#)([^)\s]+)\)", rf"]({base}/\1)", text)


version = re.search(r'^__version__ = "(.+)"$', (ROOT / "hpometrics/__init__.py").read_text("utf8"), re.M)[1]
readme = (ROOT / "README.md").read_text(encoding="utf8")
url = project_url()
setup(
    cmdclass={"build_py": BuildPackage},
    version=version,
    long_description=absolute(readme, f"{url}/blob/v{version}") if url else readme,
    long_description_content_type="text/markdown",
    project_urls={name: url + path.format(version=version) for name, path in PLACES.items()} if url else {},
)
