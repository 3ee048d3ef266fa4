#!/usr/bin/env bash
# GDPO of ms-swift on two rewards that are mixed half and half.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
MASTER_PORT=29501 \
NPROC_PER_NODE=4 \
swift rlhf \
    --rlhf_type grpo \
    --model models/sft \
    --external_plugins training/reward_plugin.py \
    --per_device_train_batch_size 8 \
    --gradient_accumulation_steps 4 \
    --num_generations 8 \
    --num_iterations 1 \
    --beta 0.02 \
    --logging_steps 1 \
    --log_completions true \
    --swanlab_exp_name 'GRPO@[IoU(0.5) + WD(0.5) GDPO beta=0.02]' \
    --reward_funcs external_vg_iou external_vg_wd_adaptive \
    --reward_weights 0.5 0.5 \
    --scale_rewards gdpo
