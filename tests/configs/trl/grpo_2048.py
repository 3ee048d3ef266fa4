# The settings of TRL's example grpo_2048.py: one reward.
from trl import GRPOConfig, GRPOTrainer

trainer = GRPOTrainer(
    model="Qwen/Qwen3-4B",
    reward_funcs=reward_score,
    environment_factory=Game2048Env,
    args=GRPOConfig(
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_completion_length=2048,
        logging_steps=1,
        log_completions=True,
        num_completions_to_print=2,
        report_to="trackio",
        chat_template_kwargs={"enable_thinking": False},
    ),
)
trainer.train()
