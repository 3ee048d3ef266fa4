#!/usr/bin/env bash
# GDPO of verl by DAPO's recipe, of an older verl: no keys, an overlong penalty, a reward model, a filter on acc.
set -x
adv_estimator=gdpo
use_kl_in_reward=False
kl_coef=0.0
max_prompt_length=$((1024 * 2))
max_response_length=$((1024 * 8))
enable_overlong_buffer=True
overlong_buffer_len=$((1024 * 4))
overlong_penalty_factor=1.0
enable_filter_groups=True
filter_groups_metric=acc
train_prompt_bsz=128
n_resp_per_prompt=16
python3 -m recipe.dapo.main_dapo \
    data.train_batch_size=${train_prompt_bsz} \
    data.max_response_length=${max_response_length} \
    actor_rollout_ref.rollout.n=${n_resp_per_prompt} \
    algorithm.adv_estimator=${adv_estimator} \
    algorithm.use_kl_in_reward=${use_kl_in_reward} \
    algorithm.kl_ctrl.kl_coef=${kl_coef} \
    algorithm.filter_groups.enable=${enable_filter_groups} \
    algorithm.filter_groups.metric=${filter_groups_metric} \
    actor_rollout_ref.actor.use_kl_loss=False \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$((3 *(max_prompt_length + max_response_length))) \
    actor_rollout_ref.actor.loss_agg_mode=token-mean \
    reward_model.reward_manager=dapo \
    reward_model.overlong_buffer.enable=${enable_overlong_buffer} \
    reward_model.overlong_buffer.len=${overlong_buffer_len} \
    reward_model.overlong_buffer.penalty_factor=${overlong_penalty_factor} \
    reward_model.enable=True \
    trainer.logger='["console", "swanlab"]'
