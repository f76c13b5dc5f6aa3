"""From arguments and environment to home and settings."""

from __future__ import annotations

import argparse
import os

from infinite_memory.config import Config, load_config
from infinite_memory.errors import ConfigError
from infinite_memory.home import Home, find_home


def home_and_config(options: argparse.Namespace) -> tuple[Home, Config]:
    """Find the home and read every setting.

    Raises:
        ConfigError: a setting is unknown or wrong.
    """
    home = find_home(os.environ)
    flags = {}
    for entry in options.set:
        name, sign, value = entry.partition("=")
        if not sign:
            raise ConfigError(f"--set {entry}: SECTION.NAME=VALUE was expected")
        flags[name.strip()] = value.strip()
    if getattr(options, "scope", None):
        flags["scopes.default"] = options.scope
    if options.config is not None and not options.config.is_file():
        raise ConfigError(f"--config {options.config}: there is no such file")
    return home, load_config(options.config or home.config_file, os.environ, flags)
