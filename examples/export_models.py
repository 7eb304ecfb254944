"""Write the example models beside this file as HLO text. Needs jax; the texts are kept here.

    python examples/export_models.py [FOLDER]

resnet20.hlo     ResNet-20 for 32x32 images, inference, batch 8
gpt_block.hlo    two causal transformer blocks with loss and gradient
rnn_scan.hlo     a recurrent cell in a loop over time
mlp_2x2.hlo      a training step of two layers for 2x2 devices: data along one axis, features along
                 the other
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

HERE = Path(__file__).parent


def spec(*dims: int, dtype=jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


def conv(x, w, stride=1):
    """Convolve with weights of variance one, so that random ones make a sensible model."""
    w = w * np.float32(np.prod(w.shape[:3]) ** -0.5)
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def batch_norm(x, p):
    """Normalize with the statistics folded into scale and offset, as models are deployed."""
    scale, offset = p
    return x * scale + offset


def resnet20(images, weights):
    """Class probabilities. images: [n,32,32,3]."""
    x = jax.nn.relu(batch_norm(conv(images, weights["stem"]), weights["stem_norm"]))
    for stage, blocks in enumerate(weights["stages"]):
        for i, block in enumerate(blocks):
            stride = 2 if stage and not i else 1
            y = jax.nn.relu(batch_norm(conv(x, block["conv1"], stride), block["norm1"]))
            y = batch_norm(conv(y, block["conv2"]), block["norm2"])
            if stride != 1:
                x = conv(x, block["shortcut"], stride)
            x = jax.nn.relu(x + y)
    return jax.nn.softmax(x.mean((1, 2)) @ weights["dense"] * 0.125 + weights["bias"])


def resnet20_weights():
    def norm(n):
        return (spec(n), spec(n))

    stages, before = [], 16
    for width in (16, 32, 64):
        blocks = []
        for i in range(3):
            block = {
                "conv1": spec(3, 3, before, width), "norm1": norm(width),
                "conv2": spec(3, 3, width, width), "norm2": norm(width),
            }  # fmt: skip
            if before != width and not i:
                block["shortcut"] = spec(1, 1, before, width)
            blocks.append(block)
            before = width
        stages.append(blocks)
    return {
        "stem": spec(3, 3, 3, 16), "stem_norm": norm(16), "stages": stages,
        "dense": spec(64, 10), "bias": spec(10),
    }  # fmt: skip


def gpt_loss(weights, tokens):
    """Mean cross-entropy of the next token. tokens: s32[b,s]."""
    x = weights["embed"][tokens]
    s, d = x.shape[1:]
    heads = 4
    mask = jnp.where(jnp.tril(jnp.ones((s, s), bool)), 0.0, -1e9)

    def norm(x):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)

    for w in weights["blocks"]:
        q, k, v = (
            t.reshape(*t.shape[:2], heads, d // heads).transpose(0, 2, 1, 3)
            for t in jnp.split(norm(x) @ w["qkv"], 3, -1)
        )
        a = jax.nn.softmax(q @ k.swapaxes(-1, -2) / np.sqrt(d // heads) + mask)
        x = x + (a @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ w["out"]
        x = x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]
    logits = jax.nn.log_softmax(norm(x) @ weights["embed"].T)
    return -jnp.take_along_axis(logits[:, :-1], tokens[:, 1:, None], -1).mean()


def gpt_weights():
    d = 64
    block = {"qkv": spec(d, 3 * d), "out": spec(d, d), "up": spec(d, 4 * d), "down": spec(4 * d, d)}
    return {"embed": spec(256, d), "blocks": [block, block]}


def rnn(h, xs, w, u):
    """Last state and all states of h' = tanh(x u + h w)."""

    def step(h, x):
        h = jnp.tanh(x @ u + h @ w)
        return h, h

    return lax.scan(step, h, xs)


GRID = AbstractMesh((2, 2), ("data", "model"))


def cut(*dims: int, axes: tuple[str | None, ...]) -> jax.ShapeDtypeStruct:
    """Return an argument whose dimensions are cut along axes of the grid of devices."""
    sharding = NamedSharding(GRID, PartitionSpec(*axes))
    return jax.ShapeDtypeStruct(dims, jnp.float32, sharding=sharding)


def mlp_step(weights, x, y):
    """One step of gradient descent; returns the loss and the new weights."""

    def loss(weights):
        up, down = weights
        return jnp.mean((jax.nn.relu(x @ up) @ down - y) ** 2)

    value, gradient = jax.value_and_grad(loss)(weights)
    return value, jax.tree.map(lambda w, g: w - 0.01 * g, weights, gradient)


MLP = (
    (cut(128, 512, axes=(None, "model")), cut(512, 128, axes=("model", None))),
    cut(256, 128, axes=("data", None)),
    cut(256, 128, axes=("data", None)),
)
MODELS = {
    "resnet20": (resnet20, (spec(8, 32, 32, 3), resnet20_weights())),
    "gpt_block": (
        jax.value_and_grad(gpt_loss), (gpt_weights(), spec(2, 64, dtype=jnp.int32)),
    ),
    "rnn_scan": (rnn, (spec(4, 32), spec(50, 4, 16), spec(32, 32), spec(16, 32))),
    "mlp_2x2": (mlp_step, MLP),
}  # fmt: skip


def main(folder: Path) -> None:
    # Source paths in the metadata end at this file's name, wherever it is run.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", r".*/")
    for name, (function, args) in MODELS.items():
        traced = jax.jit(function).trace(*args)
        text = traced.lower(lowering_platforms=("cpu",)).compiler_ir("hlo").as_hlo_text()
        if args is MLP:
            # What JAX hands to the compiler beside the module, and the compiler's dumps say.
            header, _, rest = text.partition("\n")
            text = f"{header}, num_partitions={GRID.size}\n{rest}"
        text = text.rstrip("\n") + "\n"  # as hlo-fmt has it
        (folder / f"{name}.hlo").write_text(text)
        print(f"{name}.hlo: {len(text)} characters")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
