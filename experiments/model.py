"""The tokenizer and the model, both made here: nothing is downloaded. Needs transformers."""

import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

from experiments.requests import pieces

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
WIDTH, LAYERS, HEADS = 96, 2, 4


def tokenizer() -> Any:
    """A token per piece; a decoded answer is the concatenation of its pieces."""
    known = pieces()
    vocabulary = {piece: i for i, piece in enumerate([PAD, EOS, UNKNOWN, *known])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(map(re.escape, known))), behavior="isolated")
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=PAD, eos_token=EOS, unk_token=UNKNOWN, padding_side="left"
    )


def new_model(seed: int) -> Any:
    """A causal transformer with random weights."""
    set_seed(seed)
    return LlamaForCausalLM(_config())


def _config() -> Any:
    return LlamaConfig(
        vocab_size=len(pieces()) + 3,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )


def save(model: Any, directory: Path) -> None:
    """Write the weights and the configuration."""
    model.save_pretrained(directory)


def load(directory: Path) -> Any:
    """The model that `save` wrote, in float32."""
    return LlamaForCausalLM.from_pretrained(directory, dtype=torch.float32)


def checksum(directory: Path) -> str:
    """SHA-256 of the weights."""
    return sha256((directory / "model.safetensors").read_bytes()).hexdigest()
