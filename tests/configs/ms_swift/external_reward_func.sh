# The settings of ms-swift's example plugin/run_external_reward_func.sh.
CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 \
swift rlhf \
    --rlhf_type grpo \
    --advantage_estimator grpo \
    --loss_type grpo \
    --model Qwen/Qwen2.5-VL-3B-Instruct \
    --external_plugins examples/train/grpo/plugin/plugin.py \
    --reward_funcs external_r1v_acc format \
    --overlong_filter false \
    --beta 0.001 \
    --epsilon 0.2 --epsilon_high 0.28 \
    --per_device_train_batch_size 4 \
    --gradient_accumulation_steps 4 \
    --steps_per_generation 4 \
    --num_generations 8 \
    --num_iterations 1 \
    --logging_steps 1 \
    --log_completions true \
    --report_to tensorboard swanlab
