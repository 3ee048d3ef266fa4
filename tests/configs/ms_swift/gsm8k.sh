# The settings of ms-swift's example plugin/gsm8k/gsm8k.sh: the rewards are centred, not divided.
SYSTEM_PROMPT="""Put your final answer within \\boxed{}."""
NPROC_PER_NODE=4 \
swift rlhf \
    --rlhf_type grpo \
    --model Qwen/Qwen3.5-2B \
    --reward_funcs gsm8k_accuracy gsm8k_format \
    --columns '{"answer": "solution"}' \
    --scale_rewards none \
    --per_device_train_batch_size 4 \
    --gradient_accumulation_steps 4 \
    --num_generations 8 \
    --logging_steps 1 \
    --system "$SYSTEM_PROMPT" \
    --log_completions true
