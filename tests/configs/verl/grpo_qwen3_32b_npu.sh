# The settings of verl's example run_qwen3_32b_fsdp.sh for Ascend: GRPO with KL in the loss.
set -x
exp_name='GRPO-Qwen3-32b-npu'
TRAIN_FILE=${TRAIN_FILE:-"${HOME}/verl/data/gsm8k/train.parquet"}
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    algorithm.use_kl_in_reward=False \
    data.train_files="${TRAIN_FILE}" \
    data.train_batch_size=1024 \
    actor_rollout_ref.rollout.n=4 \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    +actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=bf16 \
    trainer.logger=['console','tensorboard'] \
    trainer.experiment_name="${exp_name}" \
    trainer.total_epochs=50 $@
