# The settings of NeMo-RL's test of GDPO, tests/functional/gdpo.sh: a configuration and what a command line changes.
EXP_NAME=$(basename $0 .sh)
uv run examples/run_grpo.py \
    --config $PROJECT_ROOT/examples/configs/gdpo_math_1B.yaml \
    policy.model_name=Qwen/Qwen3-0.6B \
    grpo.num_prompts_per_step=2 \
    grpo.num_generations_per_prompt=4 \
    policy.train_global_batch_size=4 \
    grpo.max_num_steps=2 \
    logger.tensorboard_enabled=true \
    $@ \
    2>&1 | tee run.log
