"""What a distribution states of its home: version, links of the README, project URLs.

PROJECT_URL is where the repository lives, as in https://example.org/group/hpometrics. A build without it works,
states no URLs, and leaves the README's links relative; `make release` refuses such a build.
"""

import os
import re
from email import message_from_string
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PLACES = {
    "Homepage": "",
    "Documentation": "/tree/v{version}/docs",
    "Source": "/tree/v{version}",
    "Issues": "/issues",
    "Changelog": "/blob/v{version}/CHANGELOG.md",
}


def project_url() -> str:
    """Return the setting, or what an unpacked sdist was built with."""
    url = os.environ.get("PROJECT_URL", "").rstrip("/")
    stated = ROOT / "PKG-INFO"
    if not url and stated.exists():
        lines = message_from_string(stated.read_text(encoding="utf8")).get_all("Project-URL", [])
        url = next((line.partition(", ")[2] for line in lines if line.startswith("Homepage,")), "")
    if url and not re.fullmatch(r"https?://[^\s/]+/\S+", url):
        raise SystemExit(f"PROJECT_URL is the address of the repository, as https://host/owner/name, got {url!r}")
    return url


def absolute(text: str, base: str) -> str:
    """Lead each relative link of a page in Markdown to a file below `base`; those within the page stay."""
    return re.sub(r"\]\((?!\w+:|#)([^)\s]+)\)", rf"]({base}/\1)", text)


version = re.search(r'^__version__ = "(.+)"$', (ROOT / "hpometrics/__init__.py").read_text("utf8"), re.M)[1]
readme = (ROOT / "README.md").read_text(encoding="utf8")
url = project_url()
setup(
    version=version,
    long_description=absolute(readme, f"{url}/blob/v{version}") if url else readme,
    long_description_content_type="text/markdown",
    project_urls={name: url + path.format(version=version) for name, path in PLACES.items()} if url else {},
)
