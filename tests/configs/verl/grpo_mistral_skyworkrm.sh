# The settings of verl's example run_mistral_nemo_12b_skyworkrm_fsdp.sh: GRPO on a reward model's score alone.
ADV_ESTIMATOR=${ADV_ESTIMATOR:-grpo}
ROLLOUT_N=${ROLLOUT_N:-5}
TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-512}
DATA=(
    algorithm.adv_estimator=${ADV_ESTIMATOR}
    algorithm.use_kl_in_reward=False
    data.train_batch_size=${TRAIN_BATCH_SIZE}
)
REST=(
    actor_rollout_ref.actor.use_kl_loss=False
    actor_rollout_ref.actor.ppo_mini_batch_size=128
    actor_rollout_ref.rollout.n=${ROLLOUT_N}
    reward.num_workers=8
    reward.reward_model.enable=True
    reward.reward_model.model_path=Skywork/Skywork-Reward-Llama-3.1-8B
    trainer.logger='["console","wandb"]'
)
LAUNCH=(python3)
if [ "${VERL_USE_UV:-1}" != 0 ]; then
    LAUNCH=(uv run --frozen python3)
fi
"${LAUNCH[@]}" -m verl.trainer.main_ppo "${DATA[@]}" "${REST[@]}" "$@"
