"""Solving over HTTP: the service of `icdc serve`, its page, and what keeps both in bounds.

A request is read into a task by one process and waits in a bounded queue; tasks that are alike go to a worker together.
Workers are processes, one for each device, that keep their models loaded and solve as every other caller does.
"""
