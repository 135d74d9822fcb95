"""torchvision's detection models, traced; bench/torch_detection.py tries all of them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")
torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed")

from torchvision.models import detection  # noqa: E402
from torchvision.models.detection.anchor_utils import AnchorGenerator  # noqa: E402
from torchvision.models.detection.transform import GeneralizedRCNNTransform  # noqa: E402
from torchvision.ops import MultiScaleRoIAlign  # noqa: E402
from torchvision.ops import boxes as boxes_ops  # noqa: E402

import opgraft.torch  # noqa: E402
from opgraft.torch._verify import _rounding, _ties  # noqa: E402


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


def _settled(model: Any, images: Any) -> Any:
    """Gives the norms the statistics of images: random weights let all scores be the same else."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
            module.reset_running_stats()
            module.train()
    with torch.no_grad():
        model(images)
    return model.eval()


def _check(model: Any, program: Any, image: Any) -> None:
    def results(one: Any) -> Any:
        with torch.no_grad():
            return list(model([one])[0].values())

    wanted = results(image)
    scores = wanted[1]
    assert len(scores) == 10 and scores.min() > 0.01 and scores.max() < 0.99
    wrong, _ = _ties.difference(
        wanted,
        program([image]),
        lambda times: results(_rounding.disturb(image, times)),
        roundings=100,
    )
    assert not wrong


def test_a_detector_with_an_image_of_open_size() -> None:
    torch.manual_seed(0)
    model = detection.ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=3, detections_per_img=10
    ).eval()
    images = [torch.rand(3, *size) for size in ((48, 64), (56, 80), (40, 88))]
    _settled(model, images)
    sizes = ([{1: "height", 2: "width"}],)
    program = opgraft.torch.export(model, (images[:1],), dynamic_shapes=sizes, dynamo=False)
    assert program.report.captured == "traced"
    assert not program.report.specialised and program.report.is_portable
    assert [one.name for one in program.model.graph.outputs] == ["boxes_0", "scores_0", "labels_0"]
    for image in images:
        _check(model, program, image)


class Suppressed(torch.nn.Module):
    def forward(self, boxes: Any, scores: Any, labels: Any) -> Any:
        kept = boxes_ops.batched_nms(boxes, scores, labels, 0.5)
        return boxes[kept], scores[kept], labels[kept]


def _candidates(count: int) -> tuple[Any, ...]:
    """With scores that are far apart, in an image of 1000 pixels."""
    random = torch.Generator().manual_seed(count)
    corners = torch.rand(count, 2, generator=random) * 900
    boxes = torch.cat([corners, corners + 20 + 80 * torch.rand(count, 2, generator=random)], 1)
    scores = torch.randperm(count, generator=random).float() / count
    return boxes, scores, torch.randint(0, 5, (count,), generator=random)


def test_many_boxes_are_suppressed_as_few_are() -> None:
    """Beyond 1000 boxes torchvision goes another way, but not in a trace: _conversions.py."""
    sizes = ({0: "n"}, {0: "n"}, {0: "n"})
    program = opgraft.torch.export(
        Suppressed(), _candidates(40), dynamic_shapes=sizes, dynamo=False
    )
    assert not program.report.specialised
    for count in (3, 900, 1500, 4000):
        wanted = Suppressed()(*_candidates(count))
        assert count < 900 or len(wanted[0]) < count
        for one, other in zip(program(*_candidates(count)), wanted, strict=True):
            torch.testing.assert_close(one, other)


class Pooled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = MultiScaleRoIAlign(["fine", "coarse"], 3, 2)

    def forward(self, fine: Any, coarse: Any, boxes: Any) -> Any:
        return self.pool({"fine": fine, "coarse": coarse}, [boxes], [(256, 256)])


def test_regions_of_any_number_and_of_one_level_are_pooled() -> None:
    model = Pooled().eval()
    random = torch.Generator().manual_seed(0)
    maps = [torch.rand(1, 2, size, size, generator=random) for size in (64, 32)]
    small, large = torch.tensor([8.0, 8, 40, 40]), torch.tensor([0.0, 0, 250, 250])
    sizes = (None, None, {0: "n"})
    program = opgraft.torch.export(
        model, (*maps, torch.stack([small, large, small + 2])), dynamic_shapes=sizes, dynamo=False
    )
    assert not program.report.specialised
    for boxes in ([small], [large], [large, small, large - 1, small, small + 1], [small] * 9):
        wanted = model(*maps, torch.stack(boxes))
        torch.testing.assert_close(program(*maps, torch.stack(boxes))[0], wanted)


class Backbone(torch.nn.Module):
    out_channels = 16

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 16, 16, 16)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


def test_retinanet_with_scores_that_are_far_apart() -> None:
    """Where they saturate nothing says which rows come first: bench/torch_detection.py."""
    torch.manual_seed(0)
    anchors = AnchorGenerator(((16, 32),), ((0.5, 1.0, 2.0),))
    model = detection.RetinaNet(
        Backbone(), 3, anchor_generator=anchors, min_size=64, max_size=96, detections_per_img=10
    ).eval()
    torch.nn.init.normal_(model.head.classification_head.cls_logits.weight, std=0.2)
    torch.nn.init.zeros_(model.head.classification_head.cls_logits.bias)
    sizes = ([{1: "height", 2: "width"}],)
    program = opgraft.torch.export(
        model, ([torch.rand(3, 48, 64)],), dynamic_shapes=sizes, dynamo=False
    )
    assert not program.report.specialised and program.report.is_portable
    for height, width in ((48, 64), (56, 80), (40, 88)):
        _check(model, program, torch.rand(3, height, width))
