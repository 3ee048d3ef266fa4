# The settings of TRL's example gspo.py, which is started so; its rewards are two functions in the script.
accelerate launch gspo.py --model_name_or_path Qwen/Qwen3-0.6B --output_dir gspo-Qwen3-0.6B \
  --loss_type grpo --importance_sampling_level sequence --epsilon 3e-4 --epsilon_high 4e-4 --beta 0.0 \
  --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --steps_per_generation 8 --num_generations 8 \
  --max_completion_length 1024 --learning_rate 1e-5 --dtype bfloat16 --use_peft --log_completions
