#!/usr/bin/env bash
# The settings of verl's example for GDPO, run_qwen3_8b_fsdp.sh, in arrays and with defaults as there.
set -xeuo pipefail
train_batch_size=${TRAIN_BATCH_SIZE:-128}
ppo_mini_batch_size=${PPO_MINI_BATCH_SIZE:-32}
kl_loss_coef=${KL_LOSS_COEF:-0.001}
rollout_n=${ROLLOUT_N:-4}
DATA_DIR=${DATA_DIR:-$HOME/data/rlla_4k}
DATA=(
  algorithm.adv_estimator=gdpo
  +algorithm.gdpo_reward_keys='["accuracy_reward", "format_reward"]'
  algorithm.kl_ctrl.kl_coef=${kl_loss_coef}
  data.train_files=$DATA_DIR/train.parquet
  data.train_batch_size=${train_batch_size}
)
ACTOR=(
  actor_rollout_ref.actor.ppo_mini_batch_size=${ppo_mini_batch_size}
  actor_rollout_ref.actor.use_kl_loss=False
  actor_rollout_ref.actor.kl_loss_coef=${kl_loss_coef}
  actor_rollout_ref.actor.kl_loss_type=low_var_kl
)
ROLLOUT=(
  actor_rollout_ref.rollout.name=vllm
  actor_rollout_ref.rollout.n=${rollout_n}
)
REWARD=(
  reward.custom_reward_function.path="$REPO_ROOT/verl/utils/reward_score/rlla.py"
  reward.custom_reward_function.name=compute_score
  reward.reward_manager.name=gdpo
)
TRAINER=(
  trainer.logger='["console","wandb"]'
  trainer.total_epochs=${TOTAL_EPOCHS:-15}
)
python3 -m verl.trainer.main_ppo \
  "${DATA[@]}" \
  "${ACTOR[@]}" \
  "${ROLLOUT[@]}" \
  "${REWARD[@]}" \
  "${TRAINER[@]}" \
  "$@"
