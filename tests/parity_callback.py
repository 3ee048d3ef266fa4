"""`AuditCallback` inside TRL's own GRPOTrainer, which trains a tiny model on the CPU; `make parity-trainer` runs it.

The model has random weights and the tokenizer twelve words, so that nothing is downloaded.
"""

import pytest

import gdpo_audit as ga

trl = pytest.importorskip("trl")
transformers = pytest.importorskip("transformers")

WORDS = ["<pad>", "<eos>", "<unk>", *"abcdefghi"]
STEPS = 12


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def model():
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    transformers.set_seed(0)
    return transformers.LlamaForCausalLM(config)


def has_a(completions, **_):
    return [float("a" in text.split()) for text in completions]


def short(completions, **_):
    return [-len(text.split()) / 8 for text in completions]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The trainer after its run, and the callback."""
    from datasets import Dataset

    from gdpo_audit.callback import AuditCallback

    args = trl.GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("out")),
        num_generations=8,
        per_device_train_batch_size=32,
        max_completion_length=8,
        max_steps=STEPS,
        logging_steps=1,
        log_completions=True,
        num_completions_to_print=0,
        multi_objective_aggregation="normalize_then_sum",
        reward_weights=[1.0, 0.5],
        report_to="none",
        use_cpu=True,
        save_strategy="no",
        seed=0,
    )
    trainer = trl.GRPOTrainer(
        model=model(),
        reward_funcs=[has_a, short],
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [f"{x} {y}" for x in "abcdefgh" for y in "abcdefgh"]}),
        processing_class=tokenizer(),
    )
    callback = AuditCallback(trainer, every=4, primary="has_a")
    trainer.add_callback(callback)
    trainer.train()
    return trainer, callback


def test_metrics_are_logged_through_the_trainer(trained):
    trainer, _ = trained
    logged = {entry["step"]: entry for entry in trainer.state.log_history if "audit/silent_groups/gdpo" in entry}
    assert list(logged) == [4, 8, 12]
    for entry in logged.values():
        for name in ("has_a", "short"):
            assert 0 <= entry[f"audit/constant_groups/{name}"] <= 1
        assert sum(entry[f"audit/update_share/gdpo/{name}"] for name in ("has_a", "short")) == pytest.approx(1)
        assert "audit/inversions/gdpo" in entry and "audit/groups_with_ties/gdpo" in entry


def test_the_callback_says_what_an_audit_of_the_files_says(trained):
    trainer, callback = trained
    fresh = ga.audit(ga.read_run(trainer.args.output_dir), primary="has_a")
    assert callback.report.to_dict() == fresh.to_dict()
    assert fresh.run["method"] == "gdpo" and fresh.run["reproduced"] is True
    assert fresh.source["steps"] == STEPS and fresh.source["responses"] == 32 * STEPS
    assert fresh.run["weights"] == pytest.approx({"has_a": 1.0, "short": 0.5}, rel=1e-3)
