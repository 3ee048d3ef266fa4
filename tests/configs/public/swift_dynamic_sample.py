# GDPO of ms-swift from Python that hands a command to a shell; a filter on the sum is on, and rollouts are asynchronous.
import subprocess
import textwrap


def train() -> None:
    cmd = textwrap.dedent("""
    CUDA_VISIBLE_DEVICES=0,1 \\
    swift rollout --model /checkpoints/base --vllm_tensor_parallel_size 2 &

    sleep 180

    CUDA_VISIBLE_DEVICES=2,3,4,5,6,7 \\
    NPROC_PER_NODE=6 \\
    swift rlhf \\
        --rlhf_type grpo \\
        --model /checkpoints/base \\
        --per_device_train_batch_size 2 \\
        --gradient_accumulation_steps 2 \\
        --num_generations 8 \\
        --beta 0.001 \\
        --reward_funcs teds grits table_format repetition \\
        --reward_weights 0.3 0.4 0.2 0.3 \\
        --scale_rewards gdpo \\
        --importance_sampling_level sequence \\
        --dynamic_sample true \\
        --max_resample_times 3 \\
        --async_generate true \\
        --logging_steps 1 \\
        --log_completions true
    """).strip()
    subprocess.run(["bash", "-lc", cmd], check=True)
