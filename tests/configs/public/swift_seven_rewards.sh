#!/usr/bin/env bash
# GDPO of ms-swift on seven rewards.
set -euo pipefail
export CUDA_VISIBLE_DEVICES=0,1,2,3
export NPROC_PER_NODE=4
swift rlhf \
  --rlhf_type grpo \
  --model "path/to/base" \
  --external_plugins "src/reward_plugin.py" \
  --reward_funcs cot_accuracy cot_format cot_qtype cot_sim_question cot_sim_evidence cot_sim_reasoning cot_length \
  --reward_weights 2.0 0.5 0.5 0.25 0.5 0.5 0.25 \
  --scale_rewards gdpo \
  --per_device_train_batch_size 1 \
  --gradient_accumulation_steps 8 \
  --generation_batch_size 32 \
  --num_generations 8 \
  --beta 0.001 \
  --temperature 1.0 \
  --gradient_checkpointing_kwargs '{"use_reentrant": false}' \
  --eval_steps 20 \
  --split_dataset_ratio 0 \
  --logging_steps 1 \
  --log_completions true
