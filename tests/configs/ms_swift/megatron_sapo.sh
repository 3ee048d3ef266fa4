# The settings of ms-swift's example megatron/grpo/sapo.sh: the trainer on Megatron.
NPROC_PER_NODE=8 \
megatron rlhf \
  --rlhf_type grpo \
  --loss_type sapo \
  --tau_pos 1 \
  --tau_neg 1.05 \
  --context_parallel_size 1 \
  --reward_funcs external_r1v_acc format \
  --dynamic_sample false \
  --overlong_filter true \
  --steps_per_generation 4 \
  --micro_batch_size 2 \
  --global_batch_size 128 \
  --num_generations 8 \
  --finetune \
  --beta 0.001
