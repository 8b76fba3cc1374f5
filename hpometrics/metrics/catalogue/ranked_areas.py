"""Areas of rankings: how sure a relevant item stands before another one."""
