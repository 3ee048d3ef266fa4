# The settings of ms-swift's example internal/reinforce_plus_plus.sh: KL inside the reward.
NPROC_PER_NODE=8 \
swift rlhf \
    --rlhf_type grpo \
    --advantage_estimator reinforce_plus_plus \
    --scale_rewards batch \
    --kl_in_reward true \
    --beta 0.001 \
    --reward_funcs external_r1v_acc format \
    --importance_sampling_level sequence \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 4 \
    --num_generations 16 \
    --logging_steps 1 \
    --log_completions true
