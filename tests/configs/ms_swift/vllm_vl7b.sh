# The settings of ms-swift's example internal/vllm_vl7b.sh: GRPO on two rewards, nothing logged but scalars.
MAX_PIXELS=1003520 \
NPROC_PER_NODE=8 \
swift rlhf \
    --rlhf_type grpo \
    --model Qwen/Qwen2.5-VL-7B-Instruct \
    --reward_funcs accuracy format \
    --num_generations 8 \
    --per_device_train_batch_size 1 \
    --gradient_accumulation_steps 1 \
    --logging_steps 5 \
    --max_completion_length 1024 \
    --temperature 1.0
