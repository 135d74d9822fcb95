"""torchvision's detection models, traced; bench/torch_detection.py tries all of them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")
torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")

from torchvision.models import detection  # noqa: E402
from torchvision.models.detection.transform import GeneralizedRCNNTransform  # noqa: E402

import opgraft.torch  # noqa: E402


class Resized(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transform = GeneralizedRCNNTransform(64, 96, [0.5] * 3, [0.2] * 3)

    def forward(self, image: Any) -> Any:
        return self.transform([image])[0].tensors


def test_images_have_the_size_that_they_have_in_torch() -> None:
    """torchvision computes it in single precision while it is traced."""
    model = Resized().eval()
    sizes = ({1: "height", 2: "width"},)
    program = opgraft.torch.export(
        model, (torch.rand(3, 48, 64),), dynamic_shapes=sizes, dynamo=False
    )
    for height, width in ((41, 41), (41, 54), (42, 79), (47, 47), (100, 200)):
        image = torch.rand(3, height, width)
        torch.testing.assert_close(program(image)[0], model(image), rtol=1e-3, atol=1e-4)


def test_a_detector_with_an_image_of_open_size() -> None:
    torch.manual_seed(0)
    model = detection.ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=3, detections_per_img=10
    ).eval()
    sizes = ([{1: "height", 2: "width"}],)
    program = opgraft.torch.export(
        model, ([torch.rand(3, 48, 64)],), dynamic_shapes=sizes, dynamo=False
    )
    assert program.report.captured == "traced"
    assert not program.report.specialised and program.report.is_portable
    assert [one.name for one in program.model.graph.outputs] == ["boxes_0", "scores_0", "labels_0"]
