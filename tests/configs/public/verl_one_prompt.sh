#!/usr/bin/env bash
# GDPO of a fork of verl, with an option of its own and one prompt in a batch, so that the batch step sees one group.
set -euo pipefail
"$(which python)" -m verl.trainer.main_ppo \
  algorithm.adv_estimator=gdpo \
  algorithm.gdpo_baseline_mode=upstream \
  algorithm.gdpo_reward_keys='["correct_reward","format_reward"]' \
  algorithm.kl_ctrl.kl_coef=0.001 \
  data.train_files="${PROBE_DIR}/train.parquet" \
  data.train_batch_size=1 \
  actor_rollout_ref.actor.ppo_mini_batch_size=1 \
  actor_rollout_ref.actor.use_kl_loss=False \
  actor_rollout_ref.rollout.n=4 \
  reward.custom_reward_function.path="${UPSTREAM_DIR}/verl/utils/reward_score/probe.py" \
  reward.custom_reward_function.name=compute_score \
  reward.reward_manager.name=gdpo \
  trainer.logger='["console","tensorboard","file"]' \
  trainer.total_training_steps=5 \
  "$@"
