#!/usr/bin/env bash
# GDPO of verl, every value a variable with a default; no plus before the keys, and verl's usual reward manager.
set -xeuo pipefail
TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-128}
PPO_MINI_BATCH_SIZE=${PPO_MINI_BATCH_SIZE:-64}
ROLLOUT_N=${ROLLOUT_N:-8}
KL_LOSS_COEF=${KL_LOSS_COEF:-0.001}
ADV_ESTIMATOR=${ADV_ESTIMATOR:-gdpo}
GDPO_REWARD_KEYS=${GDPO_REWARD_KEYS:-"['recommendation','faithfulness']"}
GDPO_REWARD_WEIGHTS=${GDPO_REWARD_WEIGHTS:-"[1.0,0.5]"}
python3 -m verl.trainer.main_ppo \
  algorithm.adv_estimator="$ADV_ESTIMATOR" \
  algorithm.gdpo_reward_keys="$GDPO_REWARD_KEYS" \
  algorithm.gdpo_reward_weights="$GDPO_REWARD_WEIGHTS" \
  algorithm.use_kl_in_reward=False \
  data.train_batch_size="$TRAIN_BATCH_SIZE" \
  actor_rollout_ref.actor.ppo_mini_batch_size="$PPO_MINI_BATCH_SIZE" \
  actor_rollout_ref.actor.use_kl_loss=True \
  actor_rollout_ref.actor.kl_loss_coef="$KL_LOSS_COEF" \
  actor_rollout_ref.rollout.n="$ROLLOUT_N" \
  reward.reward_manager.name=naive \
  reward.custom_reward_function.path=rewards.py \
  reward.custom_reward_function.name=reward_func \
  "$@"
