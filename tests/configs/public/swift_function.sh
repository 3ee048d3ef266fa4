#!/usr/bin/env bash
# A function that starts ms-swift three times, with rewards and scale by its arguments; two answers in a group.
set -euo pipefail
SEEDS=(42)
run_variant() {
  local variant="$1"
  local seed="$2"
  shift 2
  swift rlhf \
    --rlhf_type grpo \
    --model "${MODEL}" \
    --num_generations 2 \
    --generation_batch_size 1 \
    --logging_steps 1 \
    --seed "${seed}" \
    --output_dir "${RUN_DIR}/${variant}_seed${seed}" \
    "$@" \
    > "${RUN_DIR}/${variant}_seed${seed}.log" 2>&1
}
for seed in "${SEEDS[@]}"; do
  run_variant task "${seed}" \
    --reward_funcs controlled_task \
    --scale_rewards group
  run_variant fixed "${seed}" \
    --reward_funcs controlled_task controlled_evidence controlled_operation \
    --reward_weights 1 1 1 \
    --scale_rewards gdpo
done
