"""Simulations: environments whose next state depends on all that was done in them before."""

ROWS = """\
returns=environment effects=simulates
    gym: make vector.make make_vec
    gym.vector: SyncVectorEnv
    gym.wrappers: *
    gym pettingzoo ple pybullet pybullet_envs retro procgen atari_py gym_super_mario_bros nes_py minigrid: *
    dm_control.suite: load
    stable_baselines3.common: *
    isaacgym envpool brax: *
returns=vector_environment effects=simulates+starts
    gym.vector: AsyncVectorEnv
returns=space
    gym.spaces: *
effects=simulates mutates=self
    <environment>: step reset
mutates=self
    <environment>: close
effects=seeds_given mutates=self
    <environment>: seed
effects=shows+simulates
    <environment>: render
traits=attribute returns=space
    <environment>: action_space observation_space
traits=attribute
    <environment>: spec unwrapped reward_range envs
effects=draws_given mutates=self
    <space>: sample
    <replay>: sample sample_batch
effects=seeds_given mutates=self
    <space>: seed
returns=number
    <space>: contains
traits=attribute
    <space>: n shape low high nvec spaces
"""
