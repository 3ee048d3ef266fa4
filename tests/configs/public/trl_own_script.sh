# GDPO of TRL by a script of one's own, whose options have hyphens and defaults; the first reward weighs 0.
torchrun --nproc_per_node 2 scripts/train_vlm_grpo.py \
  --train-file "$DATA_DIR/grpo_train.jsonl" \
  --per-device-train-batch-size "${GRPO_PER_DEVICE_BATCH:-1}" \
  --gradient-accumulation-steps "${GRPO_GRAD_ACCUM:-8}" \
  --num-generations "${GRPO_NUM_GENERATIONS:-2}" \
  --mask-truncated-completions \
  --importance-sampling-level "${GRPO_IMPORTANCE_SAMPLING_LEVEL:-sequence}" \
  --multi-objective-aggregation "${GRPO_MULTI_OBJECTIVE_AGGREGATION:-normalize_then_sum}" \
  --reward-weights ${GRPO_REWARD_WEIGHTS:-0.0 1.0 0.8 1.2 0.5 1.5} \
  --logging-steps 5 \
  --log-completions
