# The settings of ms-swift's example qwen2_5_omni/grpo.sh: weights, and a log of every fifth step.
pip install transformers math_verify trl -U

NPROC_PER_NODE=4 \
ENABLE_AUDIO_OUTPUT=1 \
swift rlhf \
    --rlhf_type grpo \
    --model Qwen/Qwen2.5-Omni-7B \
    --reward_funcs external_r1v_acc format \
    --reward_weights 1 0.5 \
    --dataset lmms-lab/multimodal-open-r1-8k-verified#1000 \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 1 \
    --num_generations 8 \
    --temperature 1. \
    --logging_steps 5 \
    --log_completions true
