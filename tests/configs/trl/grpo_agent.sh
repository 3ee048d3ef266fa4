# The settings of TRL's example grpo_agent.py, which is started so; it has three rewards without weights:
# correctness_reward, structure_reward, query_reward.
python grpo_agent.py --model_name_or_path Qwen/Qwen3-1.7B --output_dir grpo_biogrid_qwen_3g-1.7b \
  --use_vllm True --vllm_mode colocate --max_completion_length 1024 --max_steps 400 --log_completions True
