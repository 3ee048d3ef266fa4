"""GDPO of TRL from a dict of arguments, most of them expressions, which drops what the version does not know."""


def grpo_config(cfg, stack):
    from trl import GRPOConfig

    params = dict(
        output_dir=cfg.out_dir,
        max_steps=cfg.steps,
        per_device_train_batch_size=cfg.per_device_train_batch_size,
        num_generations=cfg.num_generations,
        loss_type="grpo",
        beta=0.04,
        epsilon=0.2,
        epsilon_high=0.28,
        mask_truncated_completions=False,
        multi_objective_aggregation="normalize_then_sum",
        logging_steps=cfg.log_every,
        report_to="none",
    )
    if stack == "vllm":
        params.update(use_vllm=True, vllm_mode="colocate")
    return GRPOConfig(**params)


def main(model, gcfg, train_ds):
    from trl import GRPOTrainer

    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[format_reward, syntax_reward, correctness_reward, speedup_reward],
        args=gcfg,
        train_dataset=train_ds,
    )
    trainer.train()
