"""The folders of torch and of this package, to tell a user's code from theirs."""

from __future__ import annotations

import os

import torch

from opgraft._base._library import PACKAGE

OF_TORCH = os.path.dirname(torch.__file__) + os.sep
OURS = str(PACKAGE) + os.sep
