"""GDPO of TRL on six rewards, two of them gated; every fiftieth step is logged, and no completion."""

import torch
from trl import GRPOConfig, GRPOTrainer

NUM_GENERATIONS = 8


def main():
    training_args = GRPOConfig(
        output_dir="./out",
        learning_rate=3e-5,
        per_device_train_batch_size=4,  # Number of distinct prompts per step
        gradient_accumulation_steps=4,
        num_generations=NUM_GENERATIONS,
        max_completion_length=128,
        temperature=0.7,
        bf16=torch.cuda.is_bf16_supported(),
        fp16=not torch.cuda.is_bf16_supported(),
        logging_steps=50,
        beta=0.01,
        report_to="wandb",
        reward_weights=[1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        multi_objective_aggregation="normalize_then_sum",
    )
    trainer = GRPOTrainer(
        model=model,
        # reward_funcs=[combined_multiplier_func],
        reward_funcs=[
            irony_reward,
            gated_context_reward,
            gated_content_reward,
            degeneration_reward,
            diversity_reward,
            style_reward,
        ],
        args=training_args,
        train_dataset=dataset,
    )
    trainer.train()


if __name__ == "__main__":
    main()
