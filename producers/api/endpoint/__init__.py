"""The workers' endpoint, on the internal port: registration, claims, beats and ends of attempts, in batches.

Workers have no way to the database but this one. Every effect is a compare-and-set on job, epoch and incarnation.
"""
