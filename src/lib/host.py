# What `triton` itself offers beside `jit`: arithmetic on numbers that are known at compile time.
from tegula import constexpr_function


@constexpr_function
def next_power_of_2(n):
    power = 1
    while power < n:
        power = power * 2
    return power
