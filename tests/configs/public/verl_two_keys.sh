# GDPO of verl as its documents have it, without weights, and with no word on which trainer runs.
export DATA_DIR="./dataset/tools"
export BASE_MODEL="./models/base-1.5B"
PROJECT_DIR="$(pwd)"
python3 -u -m verl.trainer.main_ppo \
    algorithm.adv_estimator=gdpo \
    +algorithm.gdpo_reward_keys='["accuracy_reward", "format_reward"]' \
    algorithm.kl_ctrl.kl_coef=0.001 \
    data.train_files=$DATA_DIR/train.parquet \
    data.train_batch_size=32 \
    actor_rollout_ref.model.path=$BASE_MODEL \
    actor_rollout_ref.actor.ppo_mini_batch_size=4 \
    actor_rollout_ref.actor.use_kl_loss=False \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.rollout.n=4 \
    reward.custom_reward_function.path="$PROJECT_DIR/verl/utils/reward_score/tools.py" \
    reward.custom_reward_function.name=compute_score \
    reward.reward_manager.name=gdpo \
    trainer.logger=['console'] \
    trainer.total_epochs=15 2>&1
