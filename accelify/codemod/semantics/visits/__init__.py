"""How often is a piece of code run, and on which ways does a run come to it?"""
