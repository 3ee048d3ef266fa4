# GRPO of ms-swift on Megatron with three rewards of equal weight, in a log that Megatron writes.
EXPERIMENT_NAME="video-qi"

NPROC_PER_NODE=8 \
NNODES=1 \
megatron rlhf \
  --rlhf_type grpo \
  --model /path/to/base \
  --save output/${EXPERIMENT_NAME} \
  --context_parallel_size 1 \
  --global_batch_size 16 \
  --micro_batch_size 1 \
  --steps_per_generation 1 \
  --num_generations 8 \
  --num_iterations 1 \
  --beta 0.03 \
  --importance_sampling_level sequence \
  --epsilon 3e-4 \
  --epsilon_high 4e-4 \
  --dynamic_sample false \
  --overlong_filter true \
  --loss_type grpo \
  --reward_funcs soft_mc_acc tcta_format query_intent \
  --reward_weights 1 1 1 \
  --use_precision_aware_optimizer \
  --log_interval 1
