"""Finds the packages. The layers are folders of the checkout; installed, they are all below `tidemill`.

So no plain name such as `workflows` lands in site-packages. What else there is to say is in pyproject.toml.
"""

from pathlib import Path

from setuptools import setup

LAYERS = ("model", "activities", "kinds", "workflows", "worker", "api", "examples")

folders = sorted({path.parent for layer in LAYERS for path in Path(layer).rglob("*.py")})
setup(
    packages=["tidemill", *(".".join(("tidemill", *folder.parts)) for folder in folders)],
    package_dir={"tidemill": "tidemill", **{f"tidemill.{layer}": layer for layer in LAYERS}},
)
