# GDPO of ms-swift on one reward, and a log of every fifth step.
CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \
NPROC_PER_NODE=8 \
swift rlhf \
    --rlhf_type grpo \
    --model Qwen/Qwen2.5-7B-Instruct \
    --dataset AI-MO/NuminaMath-TIR#10000 \
    --beta 0.0 \
    --scale_rewards gdpo \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 8 \
    --num_generations 16 \
    --reward_funcs accuracy \
    --logging_steps 5 \
    --log_completions true
