#!/bin/bash
# One launcher for many methods of verl: the method is an argument, and the keys come from a program.
METHOD="${METHOD:-grpo}"
TASK="${TASK:-maze}"
ADV_ESTIMATOR="$METHOD"
EXTRA=()
if [[ "$METHOD" == "gdpo" ]]; then
    GDPO_KEYS=$(python3 -c "import tasks; print(tasks.keys('$TASK'))")
    EXTRA+=("++algorithm.gdpo_reward_keys=$GDPO_KEYS")
fi
HYDRA_FULL_ERROR=1 python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator="$ADV_ESTIMATOR" \
    algorithm.use_kl_in_reward=False \
    data.train_batch_size=128 \
    ++data.apply_chat_template_kwargs.enable_thinking=False \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.rollout.n=8 \
    custom_reward_function.path=reward.py \
    'trainer.logger=["console","wandb"]' \
    "${EXTRA[@]}" \
    2>&1 | tee "logs/run.log"
