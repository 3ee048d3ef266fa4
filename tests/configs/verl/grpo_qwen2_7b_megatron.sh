# The settings of verl's example run_qwen2-7b_math_megatron_fsdp.sh: another of its configurations by name.
train_files=${train_files:-"['$HOME/data/gsm8k/train.parquet', '$HOME/data/math/train.parquet']"}
python3 -m verl.trainer.main_ppo \
    --config-path=config \
    --config-name='ppo_megatron_trainer.yaml' \
    "data.train_files=${train_files}" \
    data.train_batch_size=32 \
    algorithm.adv_estimator=grpo \
    algorithm.use_kl_in_reward=False \
    actor_rollout_ref.actor.ppo_mini_batch_size=16 \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.rollout.n=2 \
    trainer.logger='["console","wandb"]'
