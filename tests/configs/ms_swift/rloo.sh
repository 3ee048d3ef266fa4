# The settings of ms-swift's example internal/rloo.sh.
NPROC_PER_NODE=8 \
swift rlhf \
    --rlhf_type grpo \
    --advantage_estimator rloo \
    --kl_in_reward true \
    --beta 0.001 \
    --reward_funcs external_r1v_acc format \
    --loss_type grpo \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 4 \
    --num_generations 16 \
    --log_completions true
