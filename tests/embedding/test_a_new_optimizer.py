"""A new row optimizer, made by the recipe of CONTRIBUTING.md: it trains, and survives a save."""

import re
from pathlib import Path

import pytest

from tests.mutation.tree_copy import TESTS_PASSED, TreeCopy

ROOT = Path(__file__).resolve().parents[2]

HEADER = """// Steps by the sign of all gradients so far: t += g; w -= lr*scale*sign(t).
// State: t[dim], first 0.
#pragma once

#include "optim/row_math.h"

namespace monolith::MONOLITH_SIMD {

struct SignSgd {
  static constexpr std::string_view kName = "sign_sgd";
  static constexpr float kLearningRate = 0.25F;
  struct Params {
    float scale;
  };
  static constexpr std::array kParameters{
      HyperParameter{"scale", 2.0F, Range::kPositive, "Length of a step at a learning rate of 1."},
  };
  static constexpr std::array kState{StateSlot{"total", Extent::kWeight}};

  static void init_state(const Params&, std::size_t dim, float* state) { fill_row(state, dim, 0.0F); }

  MONOLITH_ROW_STEP void step(const Params& params, std::size_t dim, float* __restrict w, float* __restrict total,
                              const float* __restrict g, const StepContext& context) {
    const float length = context.learning_rate * params.scale;
    MONOLITH_VECTOR_LOOP
    for (std::size_t i = 0; i < dim; ++i) {
      total[i] += g[i];
      w[i] -= length * (total[i] / (__builtin_fabsf(total[i]) + kTiny));
    }
  }
};

}  // namespace monolith::MONOLITH_SIMD
"""

PYTHON_CLASS = '''

class SignSgdOptimizer(Optimizer):
    """Steps by the sign of all gradients so far."""

    learning_rate: float | None = None
    scale: float = DECLARED
    kind = "sign_sgd"
'''

REFERENCE = '''

def sign_sgd(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Step by the sign of the sum."""
    s["total"] += g
    w -= lr * F(p["scale"]) * np.sign(s["total"])


STATE_PARTS["sign_sgd"] = "total"
STEPS["sign_sgd"] = sign_sgd
'''

CHECKS = """
import inspect
from pathlib import Path

import torch

from monolith.embedding import Optimizer, Segment, SignSgdOptimizer, Table, TableConfig
from monolith.protos.embedding_hash_table_pb2 import EntryDump


def made(optimizer: Optimizer) -> Table:
    return Table(TableConfig(name="t", segments=(Segment(3, optimizer),)))


def test_a_step_by_hand_and_one_after_a_save(tmp_path: Path) -> None:
    assert inspect.signature(SignSgdOptimizer).parameters["scale"].default == 2.0
    table, ids = made(SignSgdOptimizer()), torch.tensor([7])
    table.apply_gradients(ids, torch.tensor([[3.0, -0.5, 0.0]]))
    assert table.lookup(ids).tolist() == [[-0.5, 0.5, 0.0]]  # 0.25 * 2
    (dump,) = map(EntryDump.FromString, table.lookup_entry(ids))
    ((slot,),) = [one.named.slot for one in dump.opt.dump]
    assert (dump.opt.dump[0].named.rule, slot.name, list(slot.value)) == ("sign_sgd", "total", [3.0, -0.5, 0.0])
    table.save(tmp_path / "t")
    restored = made(SignSgdOptimizer())
    restored.restore(tmp_path / "t")
    for one in (table, restored):
        one.apply_gradients(ids, torch.tensor([[-1.0, -1.0, -1.0]]))
        assert one.lookup(ids).tolist() == [[-1.0, 1.0, 0.5]]  # the sums are 2, -1.5 and -1


def test_its_message() -> None:
    optimizer = SignSgdOptimizer(learning_rate=0.5, scale=3)
    assert Optimizer.from_proto(optimizer.as_proto()) == optimizer
"""


def changed_files() -> dict[str, str]:
    """Return what the recipe changes: every file with its new text."""
    kernels, classes, reference = (
        (ROOT / name).read_text()
        for name in (
            "csrc/optim/row_kernels.h",
            "monolith/embedding/config/optimizers.py",
            "tests/embedding/reference_optimizers.py",
        )
    )
    kernels = kernels.replace('#include "optim/sgd.h"\n', '#include "optim/sgd.h"\n#include "optim/sign_sgd.h"\n')
    kernels = re.sub(r"(kKinds\[\] = \{.*?)(\};)", r"\1    kernels_of<SignSgd>(),\n\2", kernels, count=1, flags=re.S)
    classes = classes.replace('    "SgdOptimizer",\n', '    "SgdOptimizer",\n    "SignSgdOptimizer",\n')
    return {
        "csrc/optim/sign_sgd.h": HEADER,
        "csrc/optim/row_kernels.h": kernels,
        "monolith/embedding/config/optimizers.py": classes + PYTHON_CLASS,
        "tests/embedding/reference_optimizers.py": reference + REFERENCE,
    }


def test_the_recipe_names_the_files_that_the_test_below_changes() -> None:
    (recipe,) = re.findall(r"^### A row optimizer\n(.*?)^##", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    steps = re.findall(r"^\d\. `([^`]+)`", recipe, re.M)
    assert [name.replace("NAME", "sign_sgd") for name in steps] == list(changed_files())


@pytest.mark.services
@pytest.mark.timeout(1800)
def test_a_row_optimizer_by_the_recipe_trains_and_survives_a_save(tmp_path: Path) -> None:
    tree = TreeCopy(ROOT, tmp_path, seed=1)
    for name, text in changed_files().items():
        tree.write(name, text)
    tree.write("tests/embedding/test_sign_sgd.py", CHECKS)
    tests = ["sign_sgd", "declared_rules", "row_optimizers", "table_optimizers", "every_variant_resumes"]
    status, output = tree.run_tests([f"tests/embedding/test_{name}.py" for name in tests], 600)
    assert status == TESTS_PASSED, output
