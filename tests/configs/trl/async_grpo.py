# The settings of TRL's example async_grpo.py: the asynchronous trainer, one reward.
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
from trl.rewards import accuracy_reward


def main():
    config = AsyncGRPOConfig(
        output_dir="async_grpo_gsm8k",
        per_device_train_batch_size=16,
        gradient_accumulation_steps=2,
        max_completion_length=1024,
        max_steps=200,
        learning_rate=1e-5,
        save_strategy="no",
        log_completions=True,
    )
    AsyncGRPOTrainer(model="Qwen/Qwen3-0.6B", args=config, train_dataset=dataset, reward_funcs=accuracy_reward).train()
